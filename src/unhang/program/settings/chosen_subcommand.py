"""Which subcommand of a program this launch runs: what only the others would do is blank in its source.

Arguments choose an entry of a table (given to ``Fire`` or ``CLI``, or asked with ``sys.argv``), a command of click or
typer, what argparse's ``set_defaults`` names, or the side of a test of ``sys.argv``. Nothing is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, TypeAlias

from unhang.knowledge.collectives import source_names
from unhang.program.settings.untaken_branches import without_untaken
from unhang.program.syntax.assignments import all_assigned
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import Function, ParsedFile, call_name, dotted, names_in, parse_file, replaced

_MAY_CHOOSE = re.compile(
    r"__main__|TYPE_CHECKING|argv|CLI\(|auto_cli\(|Fire\(|\.command\(|set_defaults\(|subparsers\(|if (True|False|0|1)\b"
    r"|add_argument\(\s*[\"'][a-z]"
)
_OF_EVERY_RUN = {"__name__", "TYPE_CHECKING", ".TYPE_CHECKING"}
_MAX_NAMES = 50
_Commands: TypeAlias = Mapping[str, "ast.expr | Function"]


def live_text(text: str, argv: Sequence[str], *, is_main: bool) -> tuple[str, list[int]]:
    """``text`` of one file without what no run with the arguments ``argv`` does, lines kept; and the lines that know
    several subcommands but none that is given. ``is_main``: it is what is started, so nothing else calls into it."""
    program = parse_file(text) if _MAY_CHOOSE.search(text) else ""
    if isinstance(program, str):
        return text, []
    given, before = _Arguments(program, argv, is_main=is_main), names_in(program.tree)
    edits: list[tuple[ast.AST, str]] = []
    chosen, missed = list[int](), list[int]()
    for commands, asked in given.tables() if argv else ():
        word = given.first_of(commands)
        if len(commands) > 1 and (word or is_main):
            (chosen if word else missed).append(min(one.lineno for one in commands.values()))
            others = [one for name, one in commands.items() if name != word]
            edits += [(one, "0") for one in others if not (isinstance(one, Function) and one.name in before)]
            edits += [(asked, ast.unparse(commands[word]))] if asked is not None and word else []
    left, _ = without_untaken(
        replaced(text, edits),
        lambda test, _: bool(test.value) if isinstance(test, ast.Constant) else given.decides(test),
    )
    while edits or given.asks_argv:  # what the others alone need goes, and what that needs
        if isinstance(program := parse_file(left), str):
            return text, []
        shorter = replaced(left, _unused(program.tree, before - names_in(program.tree), is_main=is_main))
        if shorter == left:
            break
        left = shorter
    return left, [] if chosen else missed


def _unused(tree: ast.Module, unused: set[str], *, is_main: bool) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            gone = [one for one in node.names if (one.asname or one.name).partition(".")[0] in unused]
            kept = [ast.unparse(one) for one in node.names if one not in gone]
            yield from ((one, kept[0]) for one in gone) if kept else [(node, "0")]
        elif isinstance(node, Function) and is_main and node.name in unused:
            yield node, "0"


class _Arguments(Evaluation):
    """What arguments and name of a run come to in one file. ``asked``: one of them was."""

    def __init__(self, program: ParsedFile, argv: Sequence[str], *, is_main: bool) -> None:
        self.argv, self.asked, self.looked_up = ["", *argv], False, 0
        self.given: dict[str, list[ast.expr]] = {}
        for name, values in (pair for scope in program.owners for pair in all_assigned(scope).items()):
            self.given.setdefault(name, []).extend(one for one in values if one is not None)
        nodes = (node for node in ast.walk(program.tree) if isinstance(node, ast.stmt | ast.expr))
        self.nodes = sorted(nodes, key=lambda node: node.lineno)
        self.asks_argv = False
        self.known: dict[str, Any] = {"__name__": "__main__" if is_main else "", "sys.argv": self.argv}
        self.known |= {"TYPE_CHECKING": False, ".TYPE_CHECKING": False}
        if argv and not argv[0].startswith("-"):
            self.known |= {f".{name}": argv[0] for name in islice(self._positional(), 1)}

    def _positional(self) -> Iterator[str]:
        for node in self.nodes:
            match node:
                case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value=str(name)), *_]):
                    yield from [] if name.startswith("-") else [name]
                case ast.Call(func=ast.Attribute(attr="add_subparsers"), keywords=words):
                    yield from (str(self.value(word.value)) for word in words if word.arg == "dest")

    def first_of(self, commands: Iterable[str]) -> str:
        """The first argument that is one of ``commands``, as it is written there; empty where none is."""
        of_word = {name.replace("_", "-"): name for name in commands}
        alone = [word for before, word in pairwise(self.argv) if not before.startswith("-")]
        return next((of_word[word] for one in (*alone, *self.argv) if (word := one.replace("_", "-")) in of_word), "")

    def decides(self, test: ast.expr) -> bool | None:
        """What ``test`` says because of the arguments; None where it does not depend on them, or on more."""
        self.asked, self.looked_up = False, 0
        truth = self.truth(test)
        return truth if self.asked else None

    def held(self, node: ast.expr) -> Any:
        """What a name, ``sys.argv``, a word of it or the option of a subcommand holds."""
        values = self._assigned(node)
        for name in () if values else {dotted(node), f".{getattr(node, 'attr', '')}"} & self.known.keys():
            self.asked, self.asks_argv = True, self.asks_argv or name not in _OF_EVERY_RUN
            return self.known[name]
        match node:
            case ast.Name() if len(values) == 1 and self.looked_up < _MAX_NAMES:
                self.looked_up += 1
                return self.value(values[0])
            case (
                ast.Subscript(value=owner, slice=at) | ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[at])
            ):
                words, number = self.value(owner), self.value(at)
                is_known = isinstance(words, list) and isinstance(number, int) and 0 <= number < len(words)
                return words[number] if is_known else UNKNOWN
        return super().held(node)

    def _assigned(self, node: ast.expr) -> list[ast.expr]:
        return sorted(self.given.get(dotted(node), ()), key=lambda one: one.lineno)

    def tables(self) -> Iterator[tuple[_Commands, ast.expr | None]]:
        """The commands that each place knows, by the words that choose them, and the expression that is one of them."""
        groups, parsers = dict[str, dict[str, ast.expr | Function]](), dict[str, ast.expr | Function]()
        for node in self.nodes:
            match node:
                case ast.FunctionDef(decorator_list=[ast.Call(func=ast.Attribute(attr="command") as made) as call, *_]):
                    told = [*call.args, *(word.value for word in call.keywords if word.arg == "name")]
                    name = self.value(told[0]) if told else node.name
                    groups.setdefault(ast.unparse(made.value), {})[str(name)] = node
                case ast.Call(func=ast.Attribute(value=parser, attr="set_defaults"), keywords=[word]):
                    parent = [parser, *(one for one in self._assigned(parser) if one.lineno <= node.lineno)][-1]
                    if isinstance(parent, ast.Call) and parent.args and call_name(parent) == "add_parser":
                        parsers[str(self.value(parent.args[0]))] = word.value
                case ast.Call(args=[table, *_]) if call_name(node) in source_names("given_commands"):
                    yield self._table(table), table
                case (
                    ast.Subscript(value=table, slice=ast.expr() as key)
                    | ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_])
                ) if self.decides(key):
                    yield self._table(table), node
        yield from ((commands, None) for commands in (*groups.values(), *([parsers] if self.first_of(parsers) else [])))

    def _table(self, node: ast.expr) -> _Commands:
        values = self._assigned(node)
        node = values[0] if len(values) == 1 else node
        told = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
        return {str(key.value): value for key, value in told if isinstance(key, ast.Constant)}
