"""Which functions of a program a call leads to, over all of its files. By names, classes and imports; nothing is run.

What a name holds only when the program runs stays unresolved: then nothing is said to be called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from unhang.evidence.items import SourceFile
from unhang.knowledge.collectives import source_names
from unhang.program.syntax.assignments import assigned_values, bind_arguments
from unhang.program.syntax.definition_table import DefinitionTable
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition
from unhang.program.syntax.syntax_tree import ParsedFile, call_name
from unhang.program.syntax.value_resolution import ValueResolver

_MAX_HANDED = 6


class CallGraph(ValueResolver):
    """Definitions of all files, and where calls lead."""

    def __init__(self, files: Iterable[tuple[SourceFile, ParsedFile]]) -> None:
        super().__init__(DefinitionTable(files))
        self.defined, self.of_node = self.table.defined, self.table.of_node

    @cached_property
    def callers(self) -> dict[FunctionDefinition, list[tuple[FunctionDefinition, ast.Call]]]:
        """Every call that leads to a function, with the function it stands in."""
        found: dict[FunctionDefinition, list[tuple[FunctionDefinition, ast.Call]]] = {}
        for one in self.defined:
            for call in one.calls:
                for target in self.called(call, one):
                    found.setdefault(target, []).append((one, call))
        return found

    @cached_property
    def passed(self) -> Mapping[tuple[FunctionDefinition, str], Sequence[FunctionDefinition]]:
        """Functions that are given to a parameter of another."""
        found: dict[tuple[FunctionDefinition, str], dict[FunctionDefinition, None]] = {}
        handed: dict[tuple[FunctionDefinition, str], list[tuple[FunctionDefinition, str]]] = {}
        for one in self.defined:
            for call in one.calls:
                for target, names in self.arguments(call, one):
                    for name, value in names.items():
                        if isinstance(value, ast.Name | ast.Attribute):
                            given = self.functions(value, one)
                            found.setdefault((target, name), {}).update(dict.fromkeys(given))
                        if isinstance(value, ast.Name) and value.id in one.parameters:
                            handed.setdefault((one, value.id), []).append((target, name))
        for _ in range(_MAX_HANDED):
            for source, targets in handed.items():
                for key in targets:
                    found.setdefault(key, {}).update(found.get(source, {}))
        return {key: tuple(functions) for key, functions in found.items()}

    def arguments(
        self, call: ast.Call, here: FunctionDefinition
    ) -> Iterator[tuple[FunctionDefinition, dict[str, ast.expr]]]:
        """The functions that ``call`` leads to, with what their parameters get; also ``Process(target=f, args=…)``."""
        for target in self.called(call, here):
            yield target, dict(bind_arguments(target.parameters, call.args, call.keywords))
        if call_name(call) in source_names("starts_function"):
            words = {word.arg: word.value for word in call.keywords}
            started = words.get("target") or (call.args[0] if call.args else None)
            given = words.get("args")
            plain = given.elts if isinstance(given, ast.Tuple | ast.List) else call.args[1:]
            for target in self.functions(started, here) if started is not None else ():
                names = target.parameters[1:] if call_name(call) in ("spawn", "start_processes") else target.parameters
                yield target, dict(bind_arguments(names, plain, []))

    def called(self, call: ast.Call, here: FunctionDefinition) -> Sequence[FunctionDefinition]:
        """The functions that ``call`` in ``here`` leads to."""
        return self.functions(call.func, here)

    def given(self, call: ast.Call, here: FunctionDefinition) -> Sequence[FunctionDefinition]:
        """The functions that are handed to the parameter that ``call`` calls."""
        name = getattr(call.func, "id", "")
        return self.passed.get((here, name), ()) if name in here.parameters else ()

    def perhaps(self, call: ast.Call, here: FunctionDefinition) -> bool:
        """Whether the name that is called holds a function of the program on one way only."""
        name = getattr(call.func, "id", "")
        given = [value for value in assigned_values(here.node, name) if value is not None] if name else []
        return len(given) > 1 and any(not self.functions(value, here) for value in given)

    def made(self, call: ast.Call, here: FunctionDefinition) -> ClassDefinition | None:
        """The class of the program that ``call`` makes an instance of; None for every other call."""
        return self.table.class_named(call.func, here)

    def referred(self, node: ast.expr, here: FunctionDefinition) -> list[FunctionDefinition | ClassDefinition]:
        """The functions or the class that a name stands for."""
        kind = self.table.class_named(node, here)
        if kind is not None:
            return [kind]
        found = self.direct(node, here)
        return list(found or (self.only_family(node, here) if isinstance(node, ast.Attribute) else ()))

    def property_of(self, node: ast.Attribute, here: FunctionDefinition) -> list[FunctionDefinition]:
        """The functions that are run where ``node`` is read."""
        every = self.table.properties.get(node.attr, [])
        if not every or not isinstance(node.ctx, ast.Load):
            return []
        kinds = self.instances(node.value, here)
        found = [method for kind in kinds for method in self.table.methods_of(kind, node.attr) if method in every]
        return list(dict.fromkeys(found)) or (every if len(every) == 1 and not kinds else [])
