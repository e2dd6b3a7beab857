"""Reads a function: its steps in order, and on the way which of its values differ by rank."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeAlias

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.bindings import NameBindings, merge_branches
from unhang.program.data_flow.call_kinds import CallClassifier, ProgramContext
from unhang.program.data_flow.constant_arguments import constant_arguments
from unhang.program.data_flow.function_steps import (
    CHANCE,
    DATA,
    ORDER,
    PARTLY,
    POLL,
    RANK,
    RANK_ZERO,
    TIME,
    Block,
    BranchStep,
    BranchTest,
    CallStep,
    CollectiveStep,
    ExitStep,
    FunctionReading,
    LoopStep,
    Step,
    TestTerm,
    TryStep,
    WorkStep,
    always_exits,
    may_fall_through,
    steps_of,
)
from unhang.program.data_flow.rank_dependent_values import RankDependentValues, differs_by_process
from unhang.program.data_flow.rank_names import rank_decorator
from unhang.program.data_flow.value_origins import (
    GROUP_RANK,
    NO_ORIGINS,
    PER_RANK_ORIGINS,
    PLAIN_VALUE,
    RANK_ORIGINS,
    ValueOrigin,
    either_value,
)
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, children, dotted, expression_text, last_name, walk

if sys.version_info >= (3, 11):
    _Try: TypeAlias = ast.Try | ast.TryStar
else:
    _Try: TypeAlias = ast.Try

_NO_STEPS = (ast.Name, ast.Constant, ast.Lambda, ast.stmt)
_FILLS = {"update", "append", "extend", "add", "setdefault", "insert"}


class FunctionReader:
    """One function, read once."""

    def __init__(self, around: ProgramContext, here: FunctionDefinition) -> None:
        self.around, self.here = around, here
        self.learned = around.known.learned or around.known
        self.calls = around.known.calls
        self.what = CallClassifier(around, here)
        self.values = RankDependentValues(around.known, here)
        self.names = NameBindings(self.values, self.what, self.learned)
        self.back: list[ValueOrigin] = []
        self.unused: list[tuple[ast.Call, FunctionDefinition]] = []
        self.ranks_given: list[tuple[ast.Call, ast.expr, frozenset[str]]] = []
        self.own_groups: list[tuple[CollectiveStep, str]] = []
        self.names_at: dict[int, dict[str, ValueOrigin]] = {}
        """What its names hold where the statement on a line begins."""
        self.under: list[frozenset[str]] = []
        """Why not every rank may come to the statement that is read: tests around it, and exits before it."""

    def read(self) -> FunctionReading:
        """Its steps; what it returns and leaves in its names is noted for the others."""
        node, known = self.here.node, self.around.known
        if not isinstance(node, ast.Module):
            self.names.bind_parameters(node)
        steps = self._block(node.body)
        known.finals[node] = self.values.names
        if self.back:
            known.returns[self.here] = reduce(either_value, self.back)
        else:
            known.returns.setdefault(self.here, PLAIN_VALUE)
        for step in steps_of(steps):
            if (isinstance(step, CollectiveStep) and step.name == "forward") or (
                isinstance(step, CallStep) and not self.around.forwards.isdisjoint(step.targets)
            ):
                self.around.forwards.add(self.here)
        decorator = rank_decorator(node)
        if decorator is not None and steps:
            test = BranchTest("leaf", (), TestTerm(RANK_ZERO, True, expression_text(decorator), frozenset({RANK})))
            steps = (BranchStep(test, expression_text(decorator), decorator.lineno, steps, ()),)
        return FunctionReading(steps, self.unused, self.ranks_given, self.own_groups)

    # -- statements

    def _block(self, block: Sequence[ast.stmt]) -> Block:
        steps: list[Step] = []
        depth = len(self.under)
        for statement in block:
            found = self._statement(statement)
            steps += found
            for step in found if isinstance(statement, ast.If) else ():
                if isinstance(step, BranchStep) and may_fall_through(step.then) != may_fall_through(step.other):
                    self.under.append(PER_RANK_ORIGINS & step.test.kinds)
        del self.under[depth:]
        return tuple(steps)

    def _statement(self, node: ast.stmt) -> Iterable[Step]:
        self.names_at.setdefault(node.lineno, dict(self.values.names))
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self._with(node.items, node.body)
        if isinstance(node, _Try):
            return self._try(node)
        if isinstance(node, ast.Match):
            return self._match(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return ()
        return self._plain(node)

    def _plain(self, node: ast.stmt) -> list[Step]:
        steps = [step for child in children(node) for step in self._expression(child)]
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assign(node)
        elif isinstance(node, ast.Return):
            self.back.append(self._returned(node.value))
            steps.append(ExitStep("return", node.lineno))
        elif isinstance(node, ast.Raise):
            steps.append(ExitStep("raise", node.lineno))
        elif isinstance(node, ast.Break | ast.Continue):
            steps.append(ExitStep(type(node).__name__.lower(), node.lineno))
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Yield | ast.YieldFrom):
                steps.append(ExitStep("yield", node.lineno))
            elif isinstance(node.value, ast.Call):
                self._called_alone(node.value, steps)
        return steps

    def _returned(self, value: ast.expr | None) -> ValueOrigin:
        """What is returned; a plain yes or no tells what led there."""
        found = self.values.of(value)
        if not isinstance(value, ast.Constant):
            return found
        return ValueOrigin(found.kinds.union(*self.under), found.key, found.made, found.only, found.parts)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if isinstance(node, ast.AugAssign):
            both = either_value(self.values.of(node.target), self.values.of(node.value))
            self.names.give(node.target, ValueOrigin(both.kinds, None, None, both.only))
            self._set_by_some(node.target)
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if node.value is not None:
                self.names.bind(target, node.value)
                self._set_by_some(target)

    def _set_by_some(self, target: ast.expr) -> None:
        """An attribute that only some ranks come to set."""
        kinds = NO_ORIGINS.union(*self.under) & (RANK_ORIGINS | {GROUP_RANK})
        if isinstance(target, ast.Attribute) and kinds:
            self.learned.learn_attribute(self.values.owner_of(target), target.attr, ValueOrigin(kinds, only=True))

    def _called_alone(self, call: ast.Call, steps: list[Step]) -> None:
        sorts = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "sort" else None
        if isinstance(sorts, ast.Name) and sorts.id in self.values.names:
            held = self.values.names[sorts.id]
            self.values.names[sorts.id] = ValueOrigin(held.kinds - {ORDER}, only=held.only)
        if call_name(call) in _FILLS and isinstance(call.func, ast.Attribute):
            self.names.fill(call.func.value, self.values.of(call.args[0] if call.args else None))
        if call_name(call) in source_names("exit"):
            steps.append(ExitStep("raise", call.lineno))
        for target in self.calls.called(call, self.here):
            if target.is_context_manager:
                self.unused.append((call, target))

    def _if(self, node: ast.If) -> list[Step]:
        steps = list(self._expression(node.test))
        test = self.values.test(node.test)
        kinds = test.kinds
        if (says := test.known) is not None:
            return [*steps, *self._block(node.body if says else node.orelse)]
        before = dict(self.values.names)
        self.under.append(kinds & PER_RANK_ORIGINS)
        then = self._block(node.body)
        after_then = self.values.names
        self.values.names = before.copy()
        other = self._block(node.orelse)
        self.under.pop()
        self.values.names = merge_branches(
            after_then, self.values.names, kinds, always_exits(then), always_exits(other)
        )
        if then or other:
            steps.append(BranchStep(test, expression_text(node.test), node.lineno, then, other))
        return steps

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> list[Step]:
        head = node.test if isinstance(node, ast.While) else node.iter
        steps = list(self._expression(head))
        for name, value in self.around.known.loops.get(node, {}).items():
            old = self.values.names.get(name)
            if old is None or old.kinds != value.kinds or old.only != value.only:
                self.values.names[name] = either_value(old or PLAIN_VALUE, value)
        self.names_at[node.lineno] = dict(self.values.names)
        # The condition of a `while` is asked anew in every round: ranks leave it where their own data or clocks say so.
        asked = {DATA, CHANCE, TIME} if isinstance(node, ast.While) else NO_ORIGINS
        kinds = self.values.of(head).kinds & (RANK_ORIGINS | {GROUP_RANK, ORDER, PARTLY} | asked)
        if isinstance(node, ast.For | ast.AsyncFor):
            self._loop_target(node.target, node.iter)
        before = dict(self.values.names)
        body = self._block(node.body)
        if ORDER in kinds:
            self.names.filled_in_order(node)
        self.learned.loops[node] = dict(self.values.names)
        self.values.names = merge_branches(self.values.names, before, NO_ORIGINS, ends=False, other_ends=False)
        orelse = self._block(node.orelse)
        if isinstance(node, ast.While) and _is_polling_loop(node):
            steps.append(WorkStep(POLL, expression_text(head), node.lineno, self.here))
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
        if body or orelse:
            over = frozenset(kind for kind in kinds if kind[0] != "=")
            steps.append(LoopStep(head, expression_text(head), node.lineno, body, orelse, over, endless))
        return steps

    def _loop_target(self, target: ast.expr, over: ast.expr) -> None:
        name = call_name(over) if isinstance(over, ast.Call) else ""
        if name == "enumerate" and isinstance(target, ast.Tuple) and isinstance(over, ast.Call) and over.args:
            self.names.give(target.elts[0], PLAIN_VALUE)
            self._loop_target(target.elts[1], over.args[0])
            return
        self.names.give(target, self.values.member(over))

    def _match(self, node: ast.Match) -> list[Step]:
        steps = list(self._expression(node.subject))
        before = dict(self.values.names)
        branches: list[BranchStep] = []
        for case in node.cases:
            self.values.names = before.copy()
            test = self.values.test(node.subject)
            text = f"{expression_text(node.subject)} is {ast.unparse(case.pattern)}"
            part = BranchTest("leaf", (), TestTerm(text, True, text, test.kinds, None, "given"))
            branches.append(BranchStep(part, text, node.lineno, self._block(case.body), ()))
        self.values.names = before
        chain: Block = ()
        for one in reversed(branches):
            chain = (BranchStep(one.test, one.text, one.line, one.then, chain),) if one.then or chain else ()
        return [*steps, *chain]

    def _try(self, node: _Try) -> list[Step]:
        before = dict(self.values.names)
        body = self._block(node.body)
        after = self.values.names
        handlers = []
        swallows = False
        for handler in node.handlers:
            self.values.names = {**before, **after}
            handlers.append(self._block(handler.body))
            swallows |= _catches_all(handler)
        self.values.names = after
        orelse = self._block(node.orelse)
        final = self._block(node.finalbody)
        if not (body or orelse or final or any(handlers)):
            return []
        return [TryStep(node.lineno, body, tuple(handlers), orelse, final, swallows)]

    def _with(self, items: Sequence[ast.withitem], body: Sequence[ast.stmt]) -> list[Step]:
        if not items:
            return list(self._block(body))
        first = items[0]
        steps = list(self._expression(first.context_expr))
        if first.optional_vars is not None:
            self.names.bind(first.optional_vars, first.context_expr)
        inner = tuple(self._with(items[1:], body))
        call = first.context_expr
        if isinstance(call, ast.Call):
            managers = tuple(one for one in self.calls.called(call, self.here) if one.is_context_manager)
            if managers:
                handed = constant_arguments(call, self.here, self.calls)
                return [*steps, CallStep(managers, call.lineno, dotted(call.func), inner, handed=handed)]
        return [*steps, *inner]

    # -- expressions

    def _expression(self, node: ast.AST) -> list[Step]:
        if isinstance(node, _NO_STEPS):
            return []
        if isinstance(node, ast.BoolOp):
            first = self._expression(node.values[0])
            rest = [step for one in node.values[1:] for step in self._expression(one)]
            if not rest:
                return first
            how = "and" if isinstance(node.op, ast.And) else "or"
            test = self.values.test(node.values[0])
            sides = (tuple(rest), ()) if how == "and" else ((), tuple(rest))
            return [*first, BranchStep(test, expression_text(node.values[0]), node.lineno, *sides)]
        if isinstance(node, ast.IfExp):
            steps = self._expression(node.test)
            then, other = tuple(self._expression(node.body)), tuple(self._expression(node.orelse))
            if then or other:
                steps.append(
                    BranchStep(self.values.test(node.test), expression_text(node.test), node.lineno, then, other)
                )
            return steps
        if isinstance(node, ast.NamedExpr):
            steps = self._expression(node.value)
            self.names.bind(node.target, node.value)
            return steps
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            return self._comprehension(node)
        steps = [step for child in children(node) for step in self._expression(child)]
        if isinstance(node, ast.Call):
            steps += self._call(node)
        elif isinstance(node, ast.Attribute) and (read := self.what.attribute(node)):
            steps.append(read)
        return steps

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> list[Step]:
        steps = self._expression(node.generators[0].iter)
        outer = self.values.names
        self.values.names = self.values.inside(node)
        elements = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        body = tuple(step for one in elements for step in self._expression(one))
        if body:
            first = node.generators[0].iter
            kinds = self.values.of(first).kinds & {ORDER}
            steps.append(LoopStep(first, expression_text(first), node.lineno, body, (), kinds))
        self.values.names = outer
        return steps

    def _call(self, node: ast.Call) -> list[Step]:
        targets = [*self.calls.called(node, self.here), *self.calls.given(node, self.here)]
        self.names.pass_on(node)
        if targets:
            entering = [one for one in targets if not one.is_context_manager]
            self.names.made_equal(node, own=True)
            if not entering:
                return []
            perhaps = self.calls.perhaps(node, self.here)
            handed = constant_arguments(node, self.here, self.calls)
            return [CallStep(tuple(entering), node.lineno, dotted(node.func), perhaps=perhaps, handed=handed)]
        part = self.what.part(node)
        if part is not None:
            return [part]
        op = self.what.op(node)
        if op is not None:
            if op.name == "init_process_group":
                self._starts_group(node)
            elif op.name == "new_group":
                ranks = next((w.value for w in node.keywords if w.arg == "ranks"), next(iter(node.args), None))
                alone = isinstance(ranks, ast.List | ast.Tuple) and len(ranks.elts) == 1  # waits for nobody
                if ranks is not None and not alone and differs_by_process(ranks, self.values):
                    self.own_groups.append((op, expression_text(ranks)))
        if op is not None or self.names.is_received(node):
            self.names.made_equal(node, own=False)
        if op is not None:
            return [op]
        other = self.what.work(node) or self.what.forward(node)
        return [other] if other is not None else []

    def _starts_group(self, node: ast.Call) -> None:
        given = next((word.value for word in node.keywords if word.arg == "rank"), None)
        if given is not None:
            self.ranks_given.append((node, given, self.values.of(given).kinds))


def _catches_all(handler: ast.ExceptHandler) -> bool:
    """Errors of one rank's own computing are among what it catches."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {last_name(one) if one is not None else "Exception" for one in kinds}
    return bool(names & {"Exception", "BaseException", "RuntimeError", "OutOfMemoryError", "ValueError"})


def _is_polling_loop(node: ast.While) -> bool:
    """A loop that waits for something by sleeping."""
    calls = (inner for part in node.body for inner in walk(part) if isinstance(inner, ast.Call))
    return any(call_name(call) == "sleep" for call in calls)
