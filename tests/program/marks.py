"""Programs in files that say themselves what is found in them.

``# finds: WORDS`` ends a line of which WORDS must be said, ``# fine`` one that looks alike and of which nothing may be
said; several findings of one line are parted by ``; ``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MARK = re.compile(r"  # (?:finds: (?P<finds>.+)|fine)$")


def marks_of(program: str) -> Iterator[tuple[int, str]]:
    """Every mark with its line; an empty one where all is fine."""
    for number, line in enumerate(program.splitlines(), 1):
        if (mark := MARK.search(line)) is not None:
            for finds in (mark["finds"] or "").split("; "):
                yield number, finds
