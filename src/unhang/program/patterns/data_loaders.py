"""Data loaders a program makes, as its source spells them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.program.syntax.syntax_tree import call_name, parse_file

_LOADERS = {"DataLoader", "StatefulDataLoader", "WebDataset", "WebLoader"}
_WEBDATASET_ENDS = {"with_epoch", "with_length", "repeat"}


@dataclass(frozen=True, slots=True)
class LoaderInSource:
    """A ``DataLoader`` or ``WebDataset`` call. ``arguments``: those that are constants, by name."""

    kind: str
    path: str
    line: int
    arguments: Mapping[str, object]
    names: frozenset[str]
    """Of all arguments given, constant or not."""


def loaders_in(source: SourceFile) -> Iterator[LoaderInSource]:
    """Every such call of one file; none where it is no Python."""
    program = parse_file(source.text) if any(name in source.text for name in _LOADERS) else ""
    if isinstance(program, str):
        return
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Call) or call_name(node) not in _LOADERS:
            continue
        words = {str(word.arg): word.value for word in node.keywords if word.arg}
        constant = {name: value.value for name, value in words.items() if isinstance(value, ast.Constant)}
        kind = "WebDataset" if call_name(node) == "WebDataset" else "DataLoader"
        yield LoaderInSource(kind, source.path, node.lineno, constant, frozenset(words))


def gives_webdataset_a_length(source: SourceFile) -> bool:
    """Whether the file ends an epoch by a count (``with_epoch``) or resamples: then every rank gets as much."""
    return any(f".{name}(" in source.text for name in _WEBDATASET_ENDS) or "ResampledShards" in source.text
