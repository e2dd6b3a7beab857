"""Data loaders a program makes, as its source spells them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.syntax_tree import call_name, first_line, looped_over, names_in, own_nodes, parse_file
from unhang.program.syntax.syntax_tree import expression_text as _text

_LOADERS = {"DataLoader", "StatefulDataLoader", "WebDataset", "WebLoader", "DataPipeline"}
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
        if call_name(node) == "DataPipeline" and "split_by_node" not in source.text:
            continue  # every rank reads all of its shards, or another library's
        words = {str(word.arg): word.value for word in node.keywords if word.arg}
        constant = {name: value.value for name, value in words.items() if isinstance(value, ast.Constant)}
        kind = "WebDataset" if call_name(node) in ("WebDataset", "DataPipeline") else "DataLoader"
        yield LoaderInSource(kind, source.path, node.lineno, constant, frozenset(words))


def gives_webdataset_a_length(source: SourceFile) -> bool:
    """Whether the file ends an epoch by a count (``with_epoch``) or resamples: then every rank gets as much."""
    return any(f".{name}(" in source.text for name in _WEBDATASET_ENDS) or "ResampledShards" in source.text


@dataclass(frozen=True, slots=True)
class EpochLoop:
    """A loop whose number ``epoch`` is never given to the ``sampler``; the lines of both and of the loop's body."""

    path: str
    line: int
    body_line: int
    epoch: str
    sampler: str
    made_line: int


def loops_without_set_epoch(source: SourceFile) -> Iterator[EpochLoop]:
    """Where one function makes a shuffling ``DistributedSampler``, gives it to loaders alone, and reads these in one
    counted loop."""
    program = parse_file(source.text) if "DistributedSampler(" in source.text else ""
    for scope in () if isinstance(program, str) else program.owners:
        nodes = own_nodes(scope)
        used = Counter(node.id for node in nodes if isinstance(node, ast.Name))
        values = ((name, assigned_values(scope, name)) for name in used)
        made = {name: given[0] for name, given in values if len(given) == 1 and isinstance(given[0], ast.Call)}
        loops = [node for node in nodes if isinstance(node, ast.For) and isinstance(node.target, ast.Name)]
        loops = [loop for loop in loops if _text(looped_over(loop.iter)).startswith("range(")]
        named = list[ast.For]()  # by a sampler made before: of a second one for validation the order does not matter
        for name, call in sorted(made.items(), key=lambda one: one[1].lineno):
            loaders = {loader for loader, one in made.items() if _argument(one, "sampler") == name}
            reading = [loop for loop in loops if loaders & names_in(ast.Module(loop.body, []))]
            inner = [loop for loop in reading if not any(one in ast.walk(loop) for one in reading if one is not loop)]
            is_sampler = call_name(call) == "DistributedSampler" and len(call.args) < 4
            shuffles = is_sampler and _argument(call, "shuffle") in ("", "True")
            if shuffles and used[name] == 1 + len(loaders) and len(inner) == 1 and inner[0] not in named:
                named += inner
                body, epoch = first_line(inner[0].body[0]), _text(inner[0].target)
                yield EpochLoop(source.path, inner[0].lineno, body, epoch, name, call.lineno)


def _argument(call: ast.Call, name: str) -> str:
    return next((_text(word.value) for word in call.keywords if word.arg == name), "")
