"""The messages of all releases of a program, each template once; what was read of a release is kept beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from scripts.harvest.messages_in_libraries import messages_in_library
from scripts.harvest.messages_in_python import Message, messages_in
from scripts.harvest.programs import LEFT_OUT, Program, fetch, read_members

_READERS = ("messages_in_python.py", "messages_in_libraries.py")
"""What is kept was read with these."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message as its newest release has it, and the first and last release with it."""

    message: Message
    first: str
    last: str

    @property
    def releases(self) -> str:
        """Both as one text."""
        return self.first if self.first == self.last else f"{self.first}..{self.last}"


def read_program(program: Program, cache_folder: Path, tell: Callable[[str], None]) -> dict[str, Found] | None:
    """Every template of ``program``; None where one of its releases cannot be had. ``tell`` hears of each release."""
    found: dict[str, Found] = {}
    for version in program.releases:
        tell(f"{program.package} {version}")
        messages = _messages_of(program, version, cache_folder)
        if messages is None:
            return None
        newest: dict[str, Message] = {}
        for message in messages:
            newest.setdefault(message.template, message)
        for template, message in newest.items():
            first = found[template].first if template in found else version
            found[template] = Found(message, first, version)
    return found


def _messages_of(program: Program, version: str, cache_folder: Path) -> list[Message] | None:
    archive = fetch(program, version, cache_folder)
    if archive is None:
        return None
    kept = archive.parent.with_name(f"{archive.parent.name}.{_stamp(program)}.json")
    if not kept.is_file():
        messages = [
            message for path, content in read_members(archive, program.counts) for message in _read(path, content)
        ]
        kept.write_text(json.dumps([astuple(message) for message in messages]), encoding="utf-8")
    return [Message(*row) for row in json.loads(kept.read_text(encoding="utf-8"))]


def _read(path: str, content: bytes) -> Iterator[Message]:
    return messages_in(path, content) if path.endswith(".py") else messages_in_library(path, content)


@cache
def _stamp(program: Program) -> str:
    """Changes when a reader does, or what of the program is read."""
    readers = b"".join(Path(__file__).with_name(name).read_bytes() for name in _READERS)
    asked = repr((program.folders, program.without, program.libraries, sorted(LEFT_OUT))).encode()
    return sha256(readers + asked).hexdigest()[:12]
