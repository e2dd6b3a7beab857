"""What a name of a file stands for: a definition of the program, followed through its imports, or a library's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.syntax.syntax_tree import Function, statements

_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """What a file holds under ``name`` once it was read: the result of a call."""

    path: str
    name: str


class ModuleScope:
    """The names of one file. ``found``: what was made of its definitions."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path, self.tree = path, tree
        self.found: dict[ast.AST, object] = {}
        self.classes: list[ast.ClassDef] = []
        self.top: dict[str, ast.AST] = {}
        self.imports: dict[str, tuple[str, str, int]] = {}
        """Name in the file: module, name in it (empty: the module itself), level."""
        self.made: set[str] = set()
        self.every: list[tuple[str, int]] = []
        """Modules of which all names are taken."""
        for statement in statements(tree):
            if isinstance(statement, ast.ClassDef):
                self.classes.append(statement)
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(statement)
        for statement in _top_level(tree):
            if isinstance(statement, Function | ast.ClassDef):
                self.top[statement.name] = statement
                continue
            if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Call):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                self.made |= {one.id for one in targets if isinstance(one, ast.Name)}
            if isinstance(statement, ast.Assign) and path.endswith("__init__.py"):
                self._lazily(statement)

    def _lazily(self, node: ast.Assign) -> None:
        """``{"run": ".cli"}`` and ``{"cli": ["run"]}``: tables by which a package imports its parts when asked."""
        table = node.value if isinstance(node.value, ast.Dict) else None
        pairs = zip(table.keys, table.values, strict=True) if table is not None else ()
        for key, value in pairs:
            name = key.value if isinstance(key, ast.Constant) else None
            told = value.value if isinstance(value, ast.Constant) else None
            if isinstance(name, str) and isinstance(told, str) and told.startswith("."):
                self.imports.setdefault(name, (told.lstrip("."), name, len(told) - len(told.lstrip("."))))
            if isinstance(name, str) and isinstance(value, ast.List | ast.Tuple):
                inner = [one.value for one in value.elts if isinstance(one, ast.Constant)]
                self.imports.update(
                    {one: (name, one, 1) for one in inner if isinstance(one, str) and one not in self.imports}
                )

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.asname:
                    self.imports[one.asname] = (one.name, "", 0)
                else:
                    self.imports.setdefault(one.name.partition(".")[0], (one.name.partition(".")[0], "", 0))
            return
        for one in node.names:
            if one.name == "*":
                self.every.append((node.module or "", node.level))
            else:
                self.imports[one.asname or one.name] = (node.module or "", one.name, node.level)


class ModuleTable:
    """The files of a program by the names they are imported by."""

    def __init__(self) -> None:
        self.scopes: dict[str, ModuleScope] = {}
        self._by_name: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], object | None] = {}
        self.every_made: set[str] = set()

    def add(self, scope: ModuleScope) -> None:
        """Takes a file in, under each name that it may be imported by."""
        self.scopes[scope.path] = scope
        self.every_made |= scope.made
        parts = scope.path.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        for at in range(len(parts)):
            self._by_name.setdefault(".".join(parts[at:]), []).append(scope.path)

    def look_up(self, name: str, path: str) -> object | None:
        """The definition of the program that ``name`` stands for in the file ``path``."""
        key = (name, path)
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self._look_up(name, path, _MAX_DEPTH)
        return self._known[key]

    def outside(self, name: str, path: str) -> str:
        """The full name of a library's definition that ``name`` stands for in ``path``; empty for any other."""
        head, _, rest = name.partition(".")
        entry = self.scopes[path].imports.get(head)
        for _ in range(_MAX_DEPTH):
            if entry is None:
                return ""
            module, inner, level = entry
            target = self._module(module, level, path)
            if target is None:
                if level:
                    return ""
                return ".".join(part for part in (module, inner, rest) if part)
            if not inner:
                inner, _, rest = rest.partition(".")
            inside = self._submodule(target, inner)
            if inside is not None:
                inner, _, rest = rest.partition(".")
                target = inside
            path, entry = target, self.scopes[target].imports.get(inner)
        return ""

    def files_read(self, node: ast.AST, path: str) -> Iterator[str]:
        """The files of the program that an import in the file ``path`` reads; none for any other ``node``."""
        names, level = [], 0
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            module, level = node.module or "", node.level
            names = [module, *(f"{module}.{one.name}".lstrip(".") for one in node.names)]
        found = (self._module(name, level, path) for name in names)
        yield from (one for one in found if one is not None)

    def _look_up(self, name: str, path: str, deep: int) -> object | None:
        scope = self.scopes[path]
        head, _, rest = name.partition(".")
        if deep <= 0 or not head:
            return None
        if head in scope.top:
            return None if rest else scope.found.get(scope.top[head])
        entry = scope.imports.get(head)
        if entry is not None:
            return self._imported(entry, rest, path, deep)
        for module, level in scope.every:
            target = self._module(module, level, path)
            found = self._look_up(name, target, deep - 1) if target is not None and target != path else None
            if found is not None:
                return found
        return ModuleValue(path, head) if head in scope.made and not rest else None

    def _imported(self, entry: tuple[str, str, int], rest: str, path: str, deep: int) -> object | None:
        module, inner, level = entry
        target = self._module(module, level, path)
        if target is None:
            return None
        names = [part for part in (inner, *rest.split(".")) if part]
        while names and (below := self._submodule(target, names[0])) is not None:
            if names[0] in self.scopes[target].top:
                break
            target = below
            names.pop(0)
        if not names or (target == path and names[0] == inner and not rest and deep < _MAX_DEPTH - 4):
            return None
        return self._look_up(".".join(names), target, deep - 1)

    def _module(self, module: str, level: int, path: str) -> str | None:
        if level:
            folder = path.split("/")[:-level]
            parts = [*folder, *(module.split(".") if module else [])]
            inside = "/".join(parts)
            return next((one for one in (f"{inside}.py", f"{inside}/__init__.py") if one in self.scopes), None)
        found = self._by_name.get(module, [])
        return min(found, key=len) if found else None

    def _submodule(self, path: str, name: str) -> str | None:
        if not path.endswith("__init__.py") or not name:
            return None
        inside = path.removesuffix("__init__.py") + name
        return next((one for one in (f"{inside}.py", f"{inside}/__init__.py") if one in self.scopes), None)


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that a file runs when it is read, also below ``if`` and ``try``."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop(0)
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            waiting += statement.body + getattr(statement, "orelse", [])
            waiting += [inner for handler in getattr(statement, "handlers", ()) for inner in handler.body]
