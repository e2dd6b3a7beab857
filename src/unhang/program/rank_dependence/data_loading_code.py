"""What a program tells of its data: tables or shards, loops over them, rows that a rank skips on its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.program.rank_dependence.rank_values import RankValues, rank_values
from unhang.program.syntax.syntax_tree import (
    ParsedFile,
    Scope,
    call_name,
    dotted,
    own_nodes,
    parse_file,
    parsed_files,
    walk,
)

_TABLES = {"csv.reader", "csv.DictReader", "DictReader"}
_READS = {"read_csv", "read_table", "read_parquet", "ParquetFile", "WebDataset", "WebLoader", "CsvDataset"}
_WRAPPERS = {"enumerate", "tqdm", "trange", "islice", "iter", "track"}
_SPLITTERS = {"split_by_node", "split_dataset_by_node", "split_by_worker"}


@dataclass(frozen=True, slots=True)
class SkippedRows:
    """A generator that gives each rank its own rows and leaves some out: ``line`` is where it goes on without one."""

    path: str
    line: int
    function: str
    dealt_line: int
    """Where the rows are dealt out by rank."""


def reads_tables_or_shards(sources: Iterable[SourceFile]) -> bool:
    """Whether the program reads CSV, Parquet or WebDataset shards: what ``unhang reshard`` can write anew."""
    return any(
        call_name(node) in _READS or dotted(node.func) in _TABLES
        for _, program in parsed_files(sources)
        for node in ast.walk(program.tree)
        if isinstance(node, ast.Call)
    )


def guarded_loop(source: SourceFile, line: int) -> str | None:
    """The ``for`` at ``line`` with its data in ``unhang.even_batches(…)``; None where it is no such loop."""
    program = parse_file(source.text)
    if isinstance(program, str):
        return None
    loop = next((n for n in ast.walk(program.tree) if isinstance(n, ast.For) and n.lineno == line), None)
    if loop is None:
        return None
    data: ast.expr = loop.iter
    while isinstance(data, ast.Call) and call_name(data) in _WRAPPERS and data.args:
        data = data.args[0]
    if data.end_lineno != line or data.lineno != line or data.end_col_offset is None:
        return None
    text = source.text.splitlines()[line - 1].encode()
    start, end = data.col_offset, data.end_col_offset
    guarded = text[:start] + b"unhang.even_batches(" + text[start:end] + b")" + text[end:]
    return guarded.decode("utf-8", "replace").strip()


def skipped_rows(source: SourceFile) -> Iterator[SkippedRows]:
    """Generators of one file that deal rows out by rank and ``continue`` without some of them."""
    program = parse_file(source.text) if "yield" in source.text else ""
    if isinstance(program, str):
        return
    for scope, outer in program.owners.items():
        if isinstance(scope, ast.Module) or not _yields(scope):
            continue
        for loop in (node for node in own_nodes(scope) if isinstance(node, ast.For)):
            skip = _skip(loop)
            if skip is not None and _dealt(loop, rank_values(program), (*outer, scope)):
                yield SkippedRows(source.path, skip, scope.name, loop.lineno)


@dataclass(frozen=True, slots=True)
class DealtByRank:
    """``rows[rank::ranks]`` on ``line``, in the sampler ``name``: nothing makes the number of rows a multiple first."""

    path: str
    line: int
    name: str
    text: str


def dealt_by_rank(source: SourceFile) -> Iterator[DealtByRank]:
    """Samplers of one file that give some ranks a row, or a batch, more."""
    program = parse_file(source.text) if "Sampler" in source.text else ""
    if isinstance(program, str):
        return
    kinds = (node for node in program.nodes if isinstance(node, ast.ClassDef))
    for kind in (one for one in kinds if any(dotted(base).endswith("Sampler") for base in _bases(one))):
        for method in (one for one in kind.body if isinstance(one, ast.FunctionDef) and one in program.owners):
            for node in own_nodes(method):
                if isinstance(node, ast.Subscript) and _is_dealt(node, program, method):
                    yield DealtByRank(source.path, node.lineno, kind.name, ast.unparse(node))


def _bases(kind: ast.ClassDef) -> Iterator[ast.expr]:
    return (base.value if isinstance(base, ast.Subscript) else base for base in kind.bases)


def _is_dealt(node: ast.Subscript, program: ParsedFile, method: ast.FunctionDef) -> bool:
    """Rows of this rank up to the end, of what nothing in the method makes longer or shorter."""
    match node:
        case ast.Subscript(value=ast.Name(id=rows), slice=ast.Slice(lower=ast.expr() as first, upper=None, step=step)):
            scopes = (*program.owners[method], method)
            by_rank = step is not None and _by_rank(first, rank_values(program), scopes)
            return by_rank and not any(_fits_length(one, rows) for one in own_nodes(method))
    return False


def _fits_length(node: ast.AST, rows: str) -> bool:
    """``rows += rows[:missing]``, ``rows.append(…)``, ``rows = rows[:whole]``, or a method that is given them."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name)):
            return name == rows
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="extend" | "append")):
            return name == rows
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[*given]):
            return any(isinstance(one, ast.Name) and one.id == rows for one in given)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == rows:
            return any(
                isinstance(one, ast.Slice) and one.upper is not None and one.lower is None for one in walk(value)
            )
    return False


def _yields(scope: Scope) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(scope))


def _dealt(loop: ast.For, values: RankValues, scopes: tuple[Scope, ...]) -> bool:
    """The loop goes over rows of this rank only: ``rows[rank::n]``, ``islice(rows, rank, None, n)``, a splitter."""
    for node in ast.walk(loop.iter):
        if isinstance(node, ast.Call) and call_name(node) in _SPLITTERS:
            return True
        if isinstance(node, ast.Call) and call_name(node) == "islice" and len(node.args) > 1:
            return any(_by_rank(part, values, scopes) for part in node.args[1:])
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            if any(part is not None and _by_rank(part, values, scopes) for part in parts):
                return True
    return False


def _by_rank(part: ast.expr, values: RankValues, scopes: tuple[Scope, ...]) -> bool:
    nodes = (node for node in ast.walk(part) if isinstance(node, ast.expr))
    return any(values.value_depends(node, scopes) for node in nodes)


def _skip(loop: ast.For) -> int | None:
    """Line of the first ``continue`` (or of an ``except`` that only passes) between two rows of this loop."""
    waiting: list[ast.AST] = list(loop.body)
    found: list[int] = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Continue):
            found.append(node.lineno)
        if isinstance(node, ast.ExceptHandler) and all(isinstance(part, ast.Pass) for part in node.body):
            found.append(node.body[0].lineno)
        waiting.extend(ast.iter_child_nodes(node))
    return min(found, default=None)
