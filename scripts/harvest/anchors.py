"""Whether programs print what ``knowledge/messages/*.toml`` looks for: each row's anchors in releases of all programs,
and in the PyTorch that is installed."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from scripts.harvest.programs import Program, fetch, read_members
from unhang.knowledge.messages import MessageRow, load_messages

_STRING = re.compile(rb"[\t\x20-\x7e]{5,}")


def unfound_rows(texts: Iterable[str], rows: Iterable[MessageRow] = ()) -> list[MessageRow]:
    """Rows (all where none are given) of which no anchor stands in ``texts``, and whose source is no public link."""
    left = list(rows or load_messages())
    for text in texts:
        left = [row for row in left if not any(anchor in text for anchor in row.anchors)]
    return [row for row in left if "https://" not in row.source]


def texts_of(programs: Iterable[Program], cache: Path, tell: Callable[[str], None]) -> Iterator[str]:
    """All that each release of ``programs`` may print, and the PyTorch of this interpreter."""
    for program in programs:
        for version in reversed(program.releases):
            tell(f"{program.package} {version}")
            archive = fetch(program, version, cache)
            if archive is not None:
                yield "\n".join(_printable(path, content) for path, content in read_members(archive, program.counts))
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        tell("torch")
        folder = Path(spec.origin).parent
        for path in (*sorted(folder.glob("lib/lib*.so*")), *sorted(folder.glob("**/*.py"))):
            yield _printable(path.name, path.read_bytes())


def _printable(path: str, content: bytes) -> str:
    if path.endswith(".py"):
        return "\n".join(_constants(content))
    return b"\n".join(_STRING.findall(content)).decode("ascii")


def _constants(source: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
