"""Functions and classes of a program, over all of its files."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.program.syntax.syntax_tree import ParsedFile, Scope, own_nodes


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the program: ``text`` is the call or loop that stands there."""

    path: str
    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDefinition:
    """A function of the program, or the top level of a file (``node`` is then the Module)."""

    file: SourceFile = field(repr=False)
    program: ParsedFile = field(repr=False)
    node: Scope
    owner: ClassDefinition | None = None
    """The class it is a method of."""

    @property
    def name(self) -> str:
        """As the source spells it."""
        return getattr(self.node, "name", "<module>")

    @property
    def full_name(self) -> str:
        """``Class.function``, or the bare name outside a class."""
        return f"{self.owner.node.name}.{self.name}" if self.owner is not None else self.name

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes around its statements, its own last."""
        return (*self.program.owners[self.node], self.node)

    def at(self, line: int, text: str) -> SourceLine:
        """One of its lines."""
        return SourceLine(self.file.path, line, self.full_name, text)

    @property
    def is_context_manager(self) -> bool:
        """Decorated with ``@contextmanager``: nothing in it runs before ``with`` enters it."""
        names = (getattr(how, "attr", getattr(how, "id", "")) for how in _decorators(self.node))
        return any(name in ("contextmanager", "asynccontextmanager") for name in names)

    @property
    def calls(self) -> Sequence[ast.Call]:
        """Calls it makes itself, by line."""
        return _calls(self.node)

    @property
    def parameters(self) -> Sequence[str]:
        """Names that its positional arguments get, without ``self``."""
        return _parameters(self.node, is_method=self.owner is not None)


@dataclass(slots=True, eq=False)
class ClassDefinition:
    """A class of the program, with the functions that stand in it."""

    node: ast.ClassDef
    file: SourceFile
    bases: tuple[str, ...]
    """As the source spells them, last parts only."""
    methods: dict[str, FunctionDefinition] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the source spells it."""
        return self.node.name


@lru_cache(maxsize=65536)
def _parameters(node: Scope, *, is_method: bool) -> Sequence[str]:
    if isinstance(node, ast.Module):
        return ()
    names = tuple(one.arg for one in (*node.args.posonlyargs, *node.args.args))
    static = any(getattr(one, "id", "") == "staticmethod" for one in node.decorator_list)
    kept = names[1:] if is_method and not static else names
    return (*kept, *(one.arg for one in node.args.kwonlyargs))


@lru_cache(maxsize=65536)
def _calls(scope: Scope) -> Sequence[ast.Call]:
    found = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: call.lineno)


def is_abstract(one: FunctionDefinition) -> bool:
    """Whether a method only says that derived classes have it: it is marked so, or raises NotImplementedError."""
    if any(getattr(how, "attr", getattr(how, "id", "")) == "abstractmethod" for how in _decorators(one.node)):
        return True
    body = [part for part in one.node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    raised = body[0].exc if len(body) == 1 and isinstance(body[0], ast.Raise) else None
    return getattr(getattr(raised, "func", raised), "id", "") == "NotImplementedError"


def _decorators(node: Scope) -> Sequence[ast.expr]:
    return [] if isinstance(node, ast.Module) else node.decorator_list
