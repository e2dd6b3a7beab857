"""An input that breaks a promise, made as small as it stays broken: whole files first, then lines, then bytes."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.fuzz.folders import Input
from tests.fuzz.pool import Work, made, wrong_with

MAX_S = 60.0


def smaller(work: Work, wrong: str) -> tuple[str, dict[str, bytes]]:
    """(reader or target, files). ``wrong``: the promise that stays broken, whatever the numbers and names in it."""
    name, given = made(work)
    until = time.monotonic() + MAX_S
    with tempfile.TemporaryDirectory(prefix="unhang-fuzz-") as folder:

        def breaks(files: dict[str, bytes]) -> bool:
            again: Input = replace(given, files=files)
            found = wrong_with(work.target, name, again, Path(folder) / "w", work.number)
            return time.monotonic() < until and any(_kind(each) == _kind(wrong) for each in found)

        files = dict(given.files)
        for each in sorted(files):
            without = {other: content for other, content in files.items() if other != each}
            if without and breaks(without):
                files = without
        for each in sorted(files):
            files[each] = _shorter(files[each], lambda content, each=each: breaks({**files, each: content}))
    return name, files


def _kind(wrong: str) -> str:
    return re.sub(r"[\d'\"].*", "", wrong)[:60]


def _shorter(content: bytes, breaks: Callable[[bytes], bool]) -> bytes:
    for separator in (b"\n", b""):
        parts = content.split(separator) if separator else [content[at : at + 1] for at in range(len(content))]
        if len(parts) > 2000:
            continue
        size = len(parts) // 2
        while size:
            at = 0
            while at < len(parts):
                fewer = parts[:at] + parts[at + size :]
                if breaks(separator.join(fewer)):
                    parts = fewer
                else:
                    at += size
            size //= 2
        content = separator.join(parts)
    return content
