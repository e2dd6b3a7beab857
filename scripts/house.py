"""Measure the house: how large each room is, what ties its files together, and what runs the wrong way.

    python scripts/house.py [CHECKOUT] [--json]

Every figure about the size and shape of the sources comes from here. What each one means:

- A *room* is a folder or module of ``src/unhang``; each package beside it (``src/unhang_*``, ``packages/*/src/*``) is
  one room as a whole.
- *lines*: every line of every ``.py`` file. *code*: lines that hold a token of code under the formatter's settings of
  that checkout: no blank line, comment or docstring. *docs*: the share of lines in docstrings, which are bare strings
  that stand as a statement, so those below an attribute count too.
- *mean*: lines divided by files, ``__init__.py`` among the files.
- *largest folder*: the most modules that lie in one folder itself, without ``__init__.py``.
- An *import* is any import statement in a file: at the top, in a function, or only for types. ``from room import
  module`` imports the module and not the folder it lies in.
- *one importer*: modules that one file alone imports, and that file lies in their own folder. What a list finds by its
  folder (``FOUND_BY_FOLDER``) does not count, nor does ``__init__.py``.
- *circles*: groups of files that import each other in a circle. *knots*: the same among the files and folders of one
  folder, where a folder imports what any file below it imports (``acyclic_siblings`` of import-linter).
- *arrows up*: imports of one file by another against the order of rooms, which is the contract of layers in
  ``pyproject.toml`` (an older checkout has it in ``tests/test_rooms.py``). A package beside ``unhang`` comes after all.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

import tomli

HERE = Path(__file__).resolve().parents[1]
ROOT = "unhang"
FOUND_BY_FOLDER = {"causes", "risks", "cases"}
"""Folders, with those below them, whose modules are found by lying there; but ``wording`` holds what they share."""
_SILENT = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """One file: its dotted name (that of the folder for an ``__init__.py``), and its text."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @property
    def is_init(self) -> bool:
        """Whether it is the ``__init__.py`` of its folder."""
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """Where it belongs."""
        package, *inside = self.name.split(".")
        if package != ROOT:
            return package
        return inside[0] if inside else "__init__"

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return len(self.text.splitlines())


@dataclass(frozen=True)
class Size:
    """One row of the table."""

    files: int
    lines: int
    code: int
    docstrings: int
    largest_folder: int
    one_importer: int
    circles: int
    knots: int
    arrows_up: int
    largest_file: int


def packages(checkout: Path) -> list[Path]:
    """``unhang``, then the packages beside it."""
    folders = [*checkout.glob("src/*/"), *checkout.glob("packages/*/src/*/")]
    found = [folder for folder in folders if (folder / "__init__.py").is_file()]
    return sorted(found, key=lambda folder: (folder.name != ROOT, folder.name))


def modules(checkout: Path) -> list[Module]:
    """Every file of the packages of ``checkout``."""
    return [module_at(path, package) for package in packages(checkout) for path in sorted(package.rglob("*.py"))]


def module_at(path: Path, package: Path) -> Module:
    """The file at ``path`` of ``package``."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, path.read_text(encoding="utf-8"))


def docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of strings that stand as statements."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def token_lines(text: str) -> set[int]:
    """Lines that hold more than blanks and a comment."""
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }


def imports_of(module: Module, known: Iterable[str]) -> set[str]:
    """Names of ``known`` modules that ``module`` imports, anywhere in it."""
    found = {name for node in ast.walk(module.tree) for name in _imported(node, known)}
    return found - {module.name}


def _imported(node: ast.AST, known: Iterable[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            inside = f"{node.module}.{alias.name}"
            if inside in known:
                yield inside
            elif node.module in known:
                yield node.module


def graph_of(found: Sequence[Module]) -> dict[str, set[str]]:
    """Which file imports which."""
    known = {module.name for module in found}
    return {module.name: imports_of(module, known) for module in found}


def circles(graph: Graph) -> list[list[str]]:
    """Groups of more than one that reach each other (Tarjan's components), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(group for group in found if len(group) > 1)


def knots(graph: Graph) -> dict[str, list[list[str]]]:
    """By folder: groups of its files and folders that import each other in a circle."""
    siblings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, imported in graph.items():
        for other in imported:
            folder, one, two = _parting(name, other)
            if one and two:
                siblings[folder][one].add(two)
    found = {folder: circles(arrows) for folder, arrows in sorted(siblings.items())}
    return {folder: groups for folder, groups in found.items() if groups}


def _parting(name: str, other: str) -> tuple[str, str, str]:
    """The folder below which both lie, and what of it each lies in; empty for the folder's own ``__init__``."""
    ours, theirs = name.split("."), other.split(".")
    same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False))])
    return ".".join(ours[:same]), "".join(ours[same : same + 1]), "".join(theirs[same : same + 1])


def single_importers(found: Sequence[Module], graph: Graph) -> list[str]:
    """Modules that one file alone imports, which lies in their own folder."""
    importers: dict[str, list[str]] = defaultdict(list)
    for name, imported in graph.items():
        for other in imported:
            importers[other].append(name)
    paths = {module.name: module.path for module in found}
    return [
        module.name
        for module in found
        if not module.is_init
        and not found_by_folder(module)
        and len(importers[module.name]) == 1
        and paths[importers[module.name][0]].parent == module.path.parent
    ]


def found_by_folder(module: Module) -> bool:
    """Whether nobody has to import it by its name."""
    folders = set(module.name.split(".")[:-1])
    return bool(folders & FOUND_BY_FOLDER) and "wording" not in folders


def folder_sizes(found: Sequence[Module]) -> Counter[str]:
    """How many modules lie in each folder itself."""
    return Counter(module.name.rpartition(".")[0] for module in found if not module.is_init)


def order_of_rooms(checkout: Path) -> tuple[str, ...]:
    """Rooms in the order of the flow: each imports itself and those before it. Empty where nothing says it."""
    settings = tomli.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"].get("importlinter", {}).get("contracts", ()):
        if contract["type"] == "layers":
            return tuple(reversed(contract["layers"]))
    return _order_in_test(checkout / "tests" / "test_rooms.py")


def _order_in_test(path: Path) -> tuple[str, ...]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            return tuple(ast.literal_eval(node.value))
    return ()


def arrows_up(found: Sequence[Module], graph: Graph, order: Sequence[str]) -> list[tuple[str, str]]:
    """Imports of rooms that come after the importer's own."""
    if not order:
        return []
    at = {room: number for number, room in enumerate(order)} | {"__init__": -1}
    room = {module.name: module.room for module in found}
    below = len(order)
    return [
        (name, other)
        for name, imported in graph.items()
        if room[name] != "__init__"
        for other in sorted(imported)
        if at.get(room[other], below) > at.get(room[name], below)
    ]


@dataclass(frozen=True)
class House:
    """A checkout, read once."""

    modules: Sequence[Module]
    order: Sequence[str]

    @classmethod
    def at(cls, checkout: Path) -> House:
        """Read it."""
        return cls(modules(checkout), order_of_rooms(checkout))

    @cached_property
    def graph(self) -> Graph:
        """Which file imports which."""
        return graph_of(self.modules)

    @cached_property
    def single_importers(self) -> list[str]:
        """See :func:`single_importers`."""
        return single_importers(self.modules, self.graph)

    @cached_property
    def circles(self) -> list[list[str]]:
        """Of files."""
        return circles(self.graph)

    @cached_property
    def knots(self) -> dict[str, list[list[str]]]:
        """Of files and folders that lie side by side."""
        return knots(self.graph)

    @cached_property
    def arrows_up(self) -> list[tuple[str, str]]:
        """Against the order of rooms."""
        return arrows_up(self.modules, self.graph, self.order)

    def rooms(self) -> dict[str, list[Module]]:
        """In the order of the flow, then what lies beside."""
        place = {room: at for at, room in enumerate(("__init__", *self.order))}
        found: dict[str, list[Module]] = defaultdict(list)
        for module in sorted(self.modules, key=lambda module: (place.get(module.room, len(place)), module.name)):
            found[module.room].append(module)
        return dict(found)

    def size(self, of: Sequence[Module]) -> Size:
        """The row of some of its files."""
        names = {module.name for module in of}
        docs = {module.name: docstring_lines(module.tree) for module in of}
        return Size(
            files=len(of),
            lines=sum(module.lines for module in of),
            code=sum(len(token_lines(module.text) - docs[module.name]) for module in of),
            docstrings=sum(map(len, docs.values())),
            largest_folder=max(folder_sizes(of).values(), default=0),
            one_importer=len(names & set(self.single_importers)),
            circles=sum(not names.isdisjoint(group) for group in self.circles),
            knots=sum(len(groups) for folder, groups in self.knots.items() if folder in names),
            arrows_up=sum(name in names for name, _ in self.arrows_up),
            largest_file=max(module.lines for module in of),
        )


def table(sizes: Mapping[str, Size]) -> str:
    """The rows as text."""
    head = ("", "files", "lines", "code", "docs", "mean", "largest", "one", "circles", "knots", "arrows", "largest")
    more = ("", "", "", "", "", "", "folder", "importer", "", "", "up", "file")
    rows = [head, more, *(_row(name, size) for name, size in sizes.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    _, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join((row[0].ljust(widths[0]), *others))


def _row(name: str, size: Size) -> tuple[str, ...]:
    share = f"{100 * size.docstrings / max(size.lines, 1):.1f}%"
    mean = f"{size.lines / size.files:.1f}"
    shape = (size.largest_folder, size.one_importer, size.circles, size.knots, size.arrows_up, size.largest_file)
    return name, str(size.files), str(size.lines), str(size.code), share, mean, *map(str, shape)


def main() -> None:
    """Print the table, and by name what is tied."""
    parser = argparse.ArgumentParser(description="Measure the house: rooms, folders, circles, arrows back up.")
    parser.add_argument("checkout", nargs="?", type=Path, default=HERE)
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args()
    house = House.at(asked.checkout)
    sizes = {room: house.size(found) for room, found in house.rooms().items()}
    own = [module for module in house.modules if module.name.split(".")[0] == ROOT]
    sizes |= {f"src/{ROOT}": house.size(own), "everything": house.size(house.modules)}
    if asked.json:
        tied = {"circles": house.circles, "knots": house.knots, "arrows_up": house.arrows_up}
        json.dump({"rooms": {name: asdict(size) for name, size in sizes.items()}, **tied}, sys.stdout, indent=1)
        return
    print(table(sizes))
    print("\ncircles of files:", *(" ".join(group) for group in house.circles), sep="\n  ")
    print("\nknots of siblings:")
    for folder, groups in house.knots.items():
        print(*(f"  {folder}: {' '.join(group)}" for group in groups), sep="\n")
    print("\narrows up:", *(f"{name} -> {other}" for name, other in house.arrows_up), sep="\n  ")


if __name__ == "__main__":
    main()
