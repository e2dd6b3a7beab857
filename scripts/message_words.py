"""Whether torch prints the words of rows that claim it: ``python -m scripts.message_words [SITE_PACKAGES]``.

For each row of ``knowledge/messages`` whose program is PyTorch, Gloo or torchelastic, every piece of plain text in its
pattern is looked for in the libraries and modules of the torch that is installed. What is printed was not found in
*this* version: the row holds for another one (``since``, ``until``), for CUDA where this is a build without it, or the
words were never torch's. A row is found as soon as one of its alternatives is.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from unhang.knowledge.messages import MessageRow, load_messages

PARSER: Any = getattr(re, "_parser", None) or __import__("sre_parse")
PROGRAMS = re.compile(r"PyTorch|Gloo|torchelastic")
SHORTEST = 6
"""Letters of a piece that are looked for: shorter ones are anywhere."""
MOST_BRANCHES = 64
STRING = re.compile(rb"[\t\x20-\x7e]{4,}")
FOLDERS = ("torch/distributed", "torch/nn/parallel", "torch/utils/data", "torch/multiprocessing", "torch/cuda")


@cache
def words_of_torch(packages: Path) -> str:
    """All that its libraries and modules may print."""
    texts = [
        text
        for library in sorted((packages / "torch" / "lib").glob("lib*.so"))
        for text in STRING.findall(library.read_bytes())
        if b" " in text and not text.startswith(b"_Z")
    ]
    texts += [path.read_bytes() for folder in FOLDERS for path in sorted((packages / folder).rglob("*.py"))]
    joined = re.sub(r"[\"']\s*\n\s*f?[\"']", "", b"\n".join(texts).decode("ascii", "replace"))
    return re.sub(r"\\([\"'])", r"\1", joined)


def branches(parsed: Any) -> list[tuple[str, ...]]:
    """Pieces of plain text, in the order of the pattern, of each alternative."""
    found: list[tuple[str, ...]] = [()]
    text = ""
    for operator, argument in parsed:
        name = str(operator)
        if name == "LITERAL":
            text += chr(argument)
            continue
        if text:
            found, text = [(*one, text) for one in found], ""
        inner: Sequence[tuple[str, ...]] = [()]
        if name == "BRANCH":
            inner = [one for branch in argument[1] for one in branches(branch)]
        elif name == "SUBPATTERN":
            inner = branches(argument[-1])
        elif name == "MAX_REPEAT" and argument[0] > 0:
            inner = branches(argument[2])
        found = [(*before, *after) for before, after in product(found, inner)][:MOST_BRANCHES]
    return [(*one, text) for one in found] if text else found


def is_printed(piece: str, words: str) -> bool:
    """As it is, or put together out of several, each of two words at least, as where a value is a word of ours."""
    if _is_there(piece.strip(), words):
        return True
    left = piece.strip().split(" ")
    while left:
        most = len(left)
        while most > 1 and not _is_there(" ".join(left[:most]), words):
            most -= 1
        if most == 1 and len(left[0]) >= SHORTEST:
            return False
        left = left[most:]
    return True


def _is_there(text: str, words: str) -> bool:
    return len(text) < SHORTEST or text in words


def unprinted(row: MessageRow, words: str) -> list[str]:
    """Pieces of the alternative that comes nearest to what torch prints; empty where one is printed whole."""
    pieces = branches(PARSER.parse(row.expression))
    return min(([p for p in branch if not is_printed(p, words)] for branch in pieces), key=len)


def lines(packages: Path) -> Iterator[str]:
    """One for each row of which something was not found."""
    words = words_of_torch(packages)
    for row in load_messages():
        missing = unprinted(row, words) if PROGRAMS.search(f"{row.owner} {row.source}") else []
        if missing:
            versions = f"{row.since}..{row.until}" if row.since or row.until else "all versions"
            yield f"{row.id} ({versions}): {' | '.join(missing)}"


if __name__ == "__main__":
    print(*lines(Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_path("purelib"))), sep="\n")
