"""A user's source file as a tree: which statements stand around a line. It is parsed, never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

from unhang.evidence.items import SourceFile

_ROUND = {"tqdm", "iter", "islice", "zip", "trange", "enumerate", "list"}
MAX_SOURCE = 1_000_000
"""Characters read of one source file."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_LEAVES = (ast.Name, ast.Constant, ast.operator, ast.cmpop)


@dataclass(frozen=True, slots=True)
class NestingLevel:
    """One level of nesting: ``block[index]`` is the statement around the line, ``owner`` holds the block."""

    owner: ast.AST
    part: str
    """``body``, ``orelse`` or ``finalbody`` of the owner."""
    block: list[ast.stmt]
    index: int

    @property
    def statement(self) -> ast.stmt:
        """The statement around the line."""
        return self.block[self.index]


@dataclass(frozen=True, slots=True)
class LinePosition:
    """Where a line stands: the functions around it and the nesting inside the innermost of them."""

    scopes: tuple[Scope, ...]
    """Module first, innermost function last."""
    levels: tuple[NestingLevel, ...]
    """Outermost first, all inside the innermost function."""
    program: ParsedFile

    @property
    def function(self) -> Scope:
        """The innermost function, or the module."""
        return self.scopes[-1]

    @property
    def statement(self) -> ast.stmt | None:
        """The innermost statement around the line."""
        return self.levels[-1].statement if self.levels else None

    def calls(self, line: int) -> Iterator[ast.Call]:
        """The calls of that statement that span ``line``, the innermost (the one that runs first) last."""
        waiting: list[ast.AST] = [self.statement] if self.statement is not None else []
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
                yield node
            waiting.extend(child for child in children(node) if not isinstance(child, ast.stmt))


@dataclass(eq=False, slots=True)
class ParsedFile:
    """The syntax tree of one source file, with the enclosing scopes of each line."""

    tree: ast.Module
    lines: int
    _owners: dict[Scope, tuple[Scope, ...]] | None = None

    @property
    def owners(self) -> dict[Scope, tuple[Scope, ...]]:
        """Scopes around every function."""
        if self._owners is None:
            self._owners = dict(_owners(self.tree))
        return self._owners

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """All nodes, in no particular order."""
        return (node for scope in self.owners for node in own_nodes(scope))

    def place(self, line: int) -> LinePosition | None:
        """The statements around ``line`` (from 1); None when no statement stands there."""
        if not 1 <= line <= self.lines:
            return None
        scopes: list[Scope] = [self.tree]
        levels: list[NestingLevel] = []
        node: ast.AST = self.tree
        while (level := _level_at(node, line)) is not None:
            statement = level.statement
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                if line < statement.body[0].lineno:
                    levels.append(level)
                    break
                scopes.append(statement)
                levels = []
            else:
                levels.append(level)
            node = statement
        return LinePosition(tuple(scopes), tuple(levels), self) if levels or len(scopes) > 1 else None


def _level_at(node: ast.AST, line: int) -> NestingLevel | None:
    for owner, part, block in blocks(node):
        for index, statement in enumerate(block):
            if first_line(statement) <= line <= last_line(statement):
                return NestingLevel(owner, part, block, index)
    return None


@lru_cache(maxsize=200_000)
def blocks(node: ast.AST) -> Sequence[tuple[ast.AST, str, list[ast.stmt]]]:
    """The lists of statements directly inside ``node``, with what owns them (an ``except``, a ``case``)."""
    own = ((node, part, getattr(node, part, None)) for part in ("body", "orelse", "finalbody"))
    inner = (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))
    return [*(one for one in own if isinstance(one[2], list) and one[2]), *((one, "body", one.body) for one in inner)]


def first_line(statement: ast.stmt) -> int:
    """Line on which ``statement`` starts, decorators included."""
    decorators = getattr(statement, "decorator_list", None)
    return min([statement.lineno, *(d.lineno for d in decorators)]) if decorators else statement.lineno


def last_line(statement: ast.stmt) -> int:
    """Line on which ``statement`` ends."""
    return statement.end_lineno or statement.lineno


def call_name(call: ast.Call) -> str:
    """Last part of what is called: ``dist.all_reduce(x)`` is ``all_reduce``."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@lru_cache(maxsize=200_000)
def dotted(node: ast.AST) -> str:
    """``a.b.c`` of names and attributes; other parts are left out (``f(x).item`` is ``.item``)."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def last_name(node: ast.expr) -> str:
    """The last name of an expression, also of what it calls."""
    if isinstance(node, ast.Call):
        return call_name(node)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def looped_over(node: ast.expr) -> ast.expr:
    """What a loop goes over, without progress bars and counters around it."""
    while isinstance(node, ast.Call) and call_name(node) in _ROUND and node.args:
        node = node.args[0]
    return node


def replaced(text: str, edits: Iterable[tuple[ast.AST, str]]) -> str:
    """``text`` with other words instead of these nodes, of a function instead of its body; every other line stays
    where it was. What lies inside of a node that is replaced goes with it."""
    data = text.encode("utf-8", "surrogatepass")
    lines = [0, *accumulate(map(len, data.splitlines(keepends=True)))]
    spans: list[tuple[int, int, str]] = []
    for node, words in edits:
        first: Any = node.body[0] if isinstance(node, Function) else node
        last: Any = node
        line = first_line(first) if isinstance(first, ast.stmt) else first.lineno
        spans.append((lines[line - 1] + first.col_offset, lines[last.end_lineno - 1] + last.end_col_offset, words))
    parts, at = [], 0
    for start, end, words in sorted(spans):
        if start >= at:
            parts += [data[at:start], words.encode("utf-8", "surrogatepass"), b"\n" * data.count(b"\n", start, end)]
            at = end
    return b"".join((*parts, data[at:])).decode("utf-8", "surrogatepass")


@lru_cache(maxsize=200_000)
def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """What is directly in ``node``, but for ``Load`` and ``Store``; found once, because no tree is ever changed."""
    return tuple(one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr_context))


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and all that stands in it, in the order of ``ast.walk``."""
    waiting = [node]
    for one in waiting:
        if not isinstance(one, _LEAVES):
            waiting += children(one)
        yield one


def names_in(node: ast.AST) -> set[str]:
    """Plain names that an expression reads."""
    return {inner.id for inner in walk(node) if isinstance(inner, ast.Name)}


@lru_cache(maxsize=20_000)
def parameters_of(scope: ast.AST) -> dict[str, tuple[ast.arg, ast.expr | None]]:
    """Parameters of a function by name, each with its default; none of a module or class."""
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}
    plain = [*scope.args.posonlyargs, *scope.args.args]
    defaults = [None] * (len(plain) - len(scope.args.defaults)) + scope.args.defaults
    every = [*zip(plain, defaults, strict=True), *zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True)]
    return {one.arg: (one, default) for one, default in every}


@lru_cache(maxsize=20_000)
def expression_text(node: ast.AST) -> str:
    """The source of an expression on one line, at most 200 characters."""
    try:
        return " ".join(ast.unparse(node).split())[:200]
    except (RecursionError, ValueError):
        return ""


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement inside ``tree``, outer ones first. Expressions are not entered, which is ten times as fast."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        inner = [statement for _, _, block in blocks(waiting.pop()) for statement in block]
        yield from inner
        waiting.extend(inner)


@lru_cache(maxsize=20_000)
def own_nodes(scope: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a scope, without those of the functions defined in it (their ``def`` itself is given)."""
    return tuple(_own_nodes(scope))


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(children(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(children(node))


@lru_cache(maxsize=1024)
def parse_file(text: str) -> ParsedFile | str:
    """The program in ``text``, or one clause that says why it cannot be used."""
    if len(text) > MAX_SOURCE:
        return f"the source is larger than {MAX_SOURCE // 1_000_000} MB"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        return f"the source cannot be parsed (line {error.lineno}: {error.msg})"
    except (RecursionError, MemoryError, ValueError):
        return "the source is nested too deeply or damaged"
    return ParsedFile(tree, text.count("\n") + 1)


@lru_cache(maxsize=20_000)
def parse_expression(text: str) -> ast.expr | None:
    """The expression in ``text``; None where it is none."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parsed_files(files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, ParsedFile]]:
    """Each file with its tree; those that are no Python are left out."""
    for file in files:
        program = parse_file(file.text)
        if isinstance(program, ParsedFile):
            yield file, program


def _owners(tree: ast.Module) -> Iterator[tuple[Scope, tuple[Scope, ...]]]:
    waiting: list[tuple[ast.AST, tuple[Scope, ...]]] = [(tree, (tree,))]
    yield tree, ()
    while waiting:
        node, scopes = waiting.pop()
        for child in children(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child, scopes
                waiting.append((child, (*scopes, child)))
            else:
                waiting.append((child, scopes))


def find_source(sources: Mapping[str, SourceFile], path: str) -> SourceFile | None:
    """The source of a frame's file: py-spy shortens paths, so the only file with the same ending is taken too."""
    exact = sources.get(path)
    if exact is not None:
        return exact
    wanted = path.replace("\\", "/").removeprefix("./")
    if not wanted:
        return None
    found = {
        source.path: source
        for key, source in sources.items()
        if _same_ending(key.replace("\\", "/"), wanted) or _same_ending(wanted, key.replace("\\", "/"))
    }
    return next(iter(found.values())) if len(found) == 1 else None


def find_parsed_file(sources: Mapping[str, SourceFile], path: str) -> ParsedFile | None:
    """The file that stack frames call ``path``; None where it is not in the evidence, or is no Python."""
    source = find_source(sources, path)
    program = parse_file(source.text) if source is not None else None
    return program if isinstance(program, ParsedFile) else None


def find_line(sources: Mapping[str, SourceFile], path: str, line: int | None) -> LinePosition | None:
    """Where a line of a stack frame stands; None without its source, or where no statement stands."""
    program = find_parsed_file(sources, path)
    return program.place(line) if program is not None and line is not None else None


def _same_ending(longer: str, shorter: str) -> bool:
    return longer == shorter or longer.endswith("/" + shorter.lstrip("/"))
