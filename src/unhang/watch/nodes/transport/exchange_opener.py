"""Where the watchers of a start meet: what was named, else the run folder on a file system all nodes see, else a store.

A store that others than this machine can reach needs a token that all nodes were given (``UNHANG_TOKEN``); for one
that only this machine can reach it is made, where only this user can read it.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from unhang.sentences import Text, say
from unhang.watch import private_files
from unhang.watch.nodes.transport.folder_exchange import FolderExchange
from unhang.watch.nodes.transport.key_value_exchange import (
    TOKEN_VARIABLE,
    ExchangeError,
    KeyValueExchange,
    shared_token,
    token_from_environment,
)
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.watch.nodes.transport.store_exchange import StoreExchange, is_local_address, is_loopback, watcher_port

SHARED_FILESYSTEMS = re.compile(
    r"nfs\d?|lustre|gpfs|beegfs|ceph|cifs|smb\w*|9p|afs|glusterfs|panfs|wekafs|fuse\.(?!overlay|fuse-overlay).+"
)
HOST_PORT = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})")
MAX_LEADERS = 3
"""So many nodes, from the first, may keep a store one after the other."""
PROBE_S = 0.5


class TransportConfig(msgspec.Struct, frozen=True):
    """Configuration the transport gets at its start."""

    nodes: JobNodes
    name: str
    run_folder: str
    """Of this node."""
    lang: str = "en"
    started: int = 0
    """Of the watcher: raises with every start of it."""

    @property
    def folder(self) -> Path | None:
        """The folder to meet in; None where it is not a folder."""
        if self.nodes.via:
            parent = None if self._named_store else Path(self.nodes.via).absolute()
        else:
            parent = Path(self.run_folder).parent
            parent = parent if is_shared_filesystem(parent) else None
        stem = f".unhang-nodes-{hashlib.sha256(self.nodes.key.encode()).hexdigest()[:12]}"
        return parent / stem if parent is not None else None

    @property
    def peer_address(self) -> tuple[str, int]:
        """Where other nodes are, as far as an address tells."""
        return self._named_store or (self.nodes.address, self.nodes.port)

    @property
    def store(self) -> tuple[str, int]:
        """Address and port of the first store; an empty address: nothing tells one."""
        return self._named_store or (self.nodes.address, watcher_port(self.nodes.key))

    @property
    def _named_store(self) -> tuple[str, int] | None:
        match = HOST_PORT.fullmatch(self.nodes.via)
        return (match["six"] or match["host"], int(match["port"])) if match is not None else None


def is_shared_filesystem(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether ``path`` lies on a file system that other machines see too."""
    found, longest = "", -1
    with suppress(OSError):
        for line in mounts.read_text(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            fields = before.split()
            point = fields[4].replace("\\040", " ") if len(fields) > 4 else ""
            inside = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
            if point and inside and len(point) >= longest:
                found, longest = after.split(" ", 1)[0], len(point)
    return SHARED_FILESYSTEMS.fullmatch(found) is not None


class NoExchange(ExchangeError):
    """There is no place to meet; ``text`` says what would give one."""

    def __init__(self, text: Text) -> None:
        super().__init__(str(text))
        self.text = text


class ExchangeOpener:
    """Opens the place, again and again: the first store, or the one a later node keeps."""

    def __init__(self, config: TransportConfig, environment: Mapping[str, str]) -> None:
        self._config, self._environment = config, environment
        self.seat: int | None = config.nodes.number
        self.addresses: dict[int, str] = {}
        """Of the nodes that may keep a store, as they reported."""

    def open(self, *, first_only: bool = False) -> tuple[KeyValueExchange, str, str]:
        """(place, its token, what it is called). ``first_only``: no store that a later node keeps.

        Raises:
            NoExchange: and trying again will not help.
            ExchangeError: nobody is there yet, or nothing can be reached now.
        """
        folder = self._config.folder
        if folder is not None:
            place = FolderExchange(folder, self._config.nodes.count)
            try:
                return place, shared_token(folder), str(folder)
            except OSError as error:
                raise ExchangeError(f"{folder}: {error.strerror or error}") from error
        return self._store({} if first_only else self.addresses)

    def is_first_store_back(self, called: str) -> bool:
        """Whether the first store can be reached from one that a later node keeps (``called``)."""
        address, port = self._config.store
        if self._config.folder is not None or self.seat == 0 or called == f"{address}:{port}":
            return False
        with suppress(OSError):
            socket.create_connection((address, port), timeout=PROBE_S).close()
            return True
        return False

    def _store(self, later: Mapping[int, str]) -> tuple[KeyValueExchange, str, str]:
        address = self._config.store[0]
        if not address:
            text = say("use --nodes-via with a folder all nodes see, or HOST:PORT of one of them")
            raise NoExchange(text)
        token = token_from_environment(self._environment) or (_user_token() if is_loopback(address) else "")
        if not token:
            raise NoExchange(
                say(
                    "set {name} to the same 16 or more characters on every node, or use a shared folder",
                    name=TOKEN_VARIABLE,
                )
            )
        problem = ""
        if self.seat is None and is_local_address(address):
            self.seat = 0
        places = {0: address} | {k: a for k, a in sorted(later.items()) if 0 < k < MAX_LEADERS}
        for number, there in places.items():
            if number == self.seat:
                continue
            try:
                return self._at(there, keep=False, token=token)
            except ExchangeError as error:
                problem = problem or str(error)
        if self.seat in places:
            there = places[self.seat]
            try:
                return self._at(there, keep=True, token=token)
            except ExchangeError:  # another node of ours at this address keeps it already
                return self._at(there, keep=False, token=token)
        raise ExchangeError(problem)

    def _at(self, address: str, *, keep: bool, token: str) -> tuple[KeyValueExchange, str, str]:
        port, nodes = self._config.store[1], self._config.nodes
        place = StoreExchange(address, port, keep=keep, token=token, key=nodes.key, count=nodes.count)
        return place, token, f"{address}:{port}"


def _user_token() -> str:
    """A token for those who meet on this machine, which others on it cannot read; empty where there is no place."""
    folder = Path(tempfile.gettempdir()) / f"unhang-nodes-of-{os.getuid()}"
    with suppress(OSError):
        private_files.make_folder(folder)
        told = folder.lstat()
        if stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid() and not told.st_mode & 0o077:
            return shared_token(folder)
    return ""
