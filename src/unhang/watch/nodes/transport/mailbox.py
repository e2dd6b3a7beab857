"""What the watcher and its transport leave for each other: two small files in the records folder (shared memory).

The watcher writes its request, the transport its state; each replaces its own file whole. Neither ever waits for the
other.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from unhang.watch import private_files
from unhang.wire.documents.document import DECODE_ERRORS

FOLDER = "nodes"
Message = TypeVar("Message", "TransportRequest", "TransportState")


class TransportRequest(msgspec.Struct, array_like=True, frozen=True):
    """What the watcher wants carried.

    ``leads``: read the digests of all; ``hurry``: somebody waits, be quick; ``pack``: number of the sample whose
    evidence lies in ``pack_path`` for the others (0: none); ``wanted``: number of the sample whose evidence is wanted
    from ``wanted_nodes`` into ``wanted_path``; ``probe``: nodes of which to see whether their machine answers;
    ``leave``: all was said, nothing comes after this; ``turn``: grows when a digest says more than that time went by;
    ``leader``: the node whose word counts now.
    """

    hello: bytes
    digest: bytes
    word: bytes = b""
    said: bytes = b""
    leads: bool = False
    hurry: bool = False
    pack: int = 0
    pack_path: str = ""
    wanted: int = 0
    wanted_nodes: list[int] = []
    arrival_path: str = ""
    probe: list[int] = []
    leave: bool = False
    turn: int = 0
    leader: int = -1


class ReceivedValue(msgspec.Struct, array_like=True, frozen=True):
    """Last value of one kind received from one node. ``first_ns``, ``heard_ns``: monotonic, when the first came, and
    when it last changed; equal: it never did, and may be left from an earlier run."""

    node: int
    first_ns: int
    heard_ns: int
    value: bytes


class TransportState(msgspec.Struct, array_like=True, frozen=True):
    """What the transport has. ``met``: the place is reached; ``since_ns``: since when that is so; ``because``: why not;
    ``is_permanent``: trying again will not help; ``address``: this node's own, as others see it.

    ``answers``: when the machine of a node was asked last (monotonic) and whether it answered; ``answered``: those that
    ever did;
    ``sent``, ``received``: bytes in all; ``left``: the place was left for good.
    """

    at_ns: int
    met: bool
    since_ns: int
    because: str = ""
    is_permanent: bool = False
    place: str = ""
    address: str = ""
    seat: int = -1
    hellos: list[ReceivedValue] = []
    digests: list[ReceivedValue] = []
    words: list[ReceivedValue] = []
    said: list[ReceivedValue] = []
    answers: dict[int, tuple[int, bool]] = {}
    answered: list[int] = []
    sent: int = 0
    received: int = 0
    left: bool = False


class Mailbox(Generic[Message]):
    """One of the two files."""

    def __init__(self, path: Path, kind: type[Message]) -> None:
        self._path = path
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind)
        self._seen: tuple[int, int] = (0, 0)
        self.last: Message | None = None

    def put(self, value: Message) -> None:
        """Replace it; no room is not worth an error."""
        with suppress(OSError):
            private_files.write_atomically(self._path, msgspec.msgpack.encode(value))

    def drop(self) -> None:
        """Remove the value."""
        with suppress(OSError):
            self._path.unlink()

    def refresh(self) -> bool:
        """Read it where it is new; whether it was. ``last`` keeps it."""
        try:
            told = self._path.stat()
            mark = (told.st_ino, told.st_mtime_ns)
            if mark == self._seen:
                return False
            value: Message = self._decoder.decode(self._path.read_bytes())
        except (OSError, *DECODE_ERRORS):
            return False
        self._seen, self.last = mark, value
        return True


def request_mailbox(records: Path) -> Mailbox[TransportRequest]:
    """Requests, watcher to transport."""
    return Mailbox(private_files.make_folder(records / FOLDER) / "errand", TransportRequest)


def state_mailbox(records: Path) -> Mailbox[TransportState]:
    """State, transport to watcher."""
    return Mailbox(private_files.make_folder(records / FOLDER) / "news", TransportState)


def seconds_since(at_ns: int) -> float:
    """Seconds since a monotonic time of this machine."""
    return (time.monotonic_ns() - at_ns) / 1e9
