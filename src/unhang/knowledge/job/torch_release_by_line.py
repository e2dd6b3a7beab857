"""Which torch release wrote a line, told by the number behind ``ProcessGroupNCCL.cpp:``."""

from __future__ import annotations

from functools import cache

import tomli

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_text


def torch_version_from_line(message: str, line: int) -> tuple[str, ...]:
    """Releases of torch (PyPI wheels) in which ``message`` stands at ``line`` of ProcessGroupNCCL.cpp.

    ``message`` is the ``fingerprint`` of a message row (``watchdog_timeout``). An empty tuple means another
    build (a vendor's or one's own) or an unknown release.
    """
    return _releases_by_line().get((message, line), ())


@cache
def _releases_by_line() -> dict[tuple[str, int], tuple[str, ...]]:
    table = tomli.loads(read_text("torch_lines.toml"))
    releases: list[str] = table["releases"]
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for message, numbers in table["lines"].items():
        if len(numbers) != len(releases):
            raise KnowledgeError(f"torch_lines.toml: {message} has {len(numbers)} numbers for {len(releases)} releases")
        for release, number in zip(releases, numbers, strict=True):
            if number:
                found[message, number] = (*found.get((message, number), ()), release)
    return found
