"""Which values differ by rank: rank and environment, local data, time, files; and which a collective made equal."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from unhang.knowledge.collectives import is_own_data, lists_own_group, source_names
from unhang.program.data_flow.branch_tests import branch_test, name_asked
from unhang.program.data_flow.function_steps import (
    BATCH,
    CHANCE,
    DATA,
    FILES,
    LOCAL,
    ORDER,
    PARTLY,
    RANK,
    SETTING,
    TIME,
    BranchTest,
    test_terms,
)
from unhang.program.data_flow.models import differentiated_calls
from unhang.program.data_flow.rank_names import (
    asks_environment,
    is_environ,
    is_matrix_rank,
    value_of_call,
    value_of_name,
    value_of_variable,
)
from unhang.program.data_flow.value_origins import (
    EQUAL,
    GROUP_RANK,
    LOOP,
    NO_ORIGINS,
    PLAIN_VALUE,
    RANK_ORIGINS,
    SIFTED,
    ProgramKnowledge,
    ValueOrigin,
    either_value,
)
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, children, dotted, last_name, looped_over, walk

AnyComprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_LOADERS = ("loader", "batches", "data_iter", "data_iterator", "_dl", "batch_iter")

_SETS = {"set", "frozenset"}
_SET_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_GENERATORS = {"random": "python", "numpy.random": "numpy", "torch": "torch"}
_NUMBERS = {
    "random": {"random", "uniform", "randint", "randrange", "choice", "gauss", "normalvariate", "betavariate"},
    "numpy.random": {"rand", "random", "random_sample", "uniform", "randint", "choice", "binomial", "beta"},
    "torch": {"rand", "randint"},
}
RANDOM_FUNCTIONS = frozenset(name for names in _NUMBERS.values() for name in names)
"""Names of functions that may give a random number."""
_OWN = RANK_ORIGINS | {GROUP_RANK}
_MAX_DEPTH = 4


class RankDependentValues:
    """The values of one function while it is read."""

    def __init__(self, known: ProgramKnowledge, here: FunctionDefinition) -> None:
        self.known, self.here = known, here
        self.names: dict[str, ValueOrigin] = {}
        self._differentiated: frozenset[ast.Call] | None = None

    # -- values

    def of(self, node: ast.expr | None) -> ValueOrigin:
        """Why ``node`` may differ from rank to rank."""
        if node is None or isinstance(node, ast.Constant | ast.Lambda | ast.JoinedStr | ast.FormattedValue):
            return PLAIN_VALUE
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        return self._put_together(node)

    def _put_together(self, node: ast.expr) -> ValueOrigin:
        if isinstance(node, ast.Compare | ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            return self._truth(node)
        if isinstance(node, ast.IfExp):
            test = self._truth(node.test)
            both = either_value(self.of(node.body), self.of(node.orelse))
            return ValueOrigin(both.kinds | test.kinds, None, None, both.only or bool(test.kinds & RANK_ORIGINS))
        if isinstance(node, ast.Tuple):
            parts = tuple(self.of(one) for one in node.elts)
            return ValueOrigin(frozenset(kind for one in parts for kind in one.kinds), parts=parts)
        if isinstance(node, ast.Dict) and node.keys and all(isinstance(key, ast.Constant) for key in node.keys):
            return self._with_keys(tuple(getattr(key, "value", None) for key in node.keys), node.values)
        if not isinstance(node, _COMPREHENSIONS):
            return self._made_of(node, NO_ORIGINS)
        over = self.of(node.generators[0].iter).kinds
        outer, self.names = self.names, self.inside(node)
        made = self._made_of(node, over)
        self.names = outer
        return made

    def inside(self, node: AnyComprehension) -> dict[str, ValueOrigin]:
        """What names hold in a comprehension."""
        targets = ((one, target) for one in node.generators for target in walk(one.target))
        return self.names | {
            target.id: self.member(one.iter) for one, target in targets if isinstance(target, ast.Name)
        }

    def member(self, over: ast.expr) -> ValueOrigin:
        """What a loop over ``over`` gives in a round."""
        loads = last_name(looped_over(over)).lower().endswith(_LOADERS)
        kinds = (self.of(over).kinds & {DATA, BATCH}) | ({DATA} if loads else NO_ORIGINS)
        return ValueOrigin(kinds, None, LOOP) if kinds else PLAIN_VALUE

    def _made_of(self, node: ast.expr, over: frozenset[str]) -> ValueOrigin:
        kinds = NO_ORIGINS.union(*(self.of(child).kinds for child in children(node) if isinstance(child, ast.expr)))
        sifted = self._sifted(node)
        kinds |= sifted
        if iterates_over_set(node, kinds | over):
            kinds |= {ORDER}
        elif not isinstance(node, ast.BinOp | ast.Starred | ast.NamedExpr | ast.Await):
            kinds -= {ORDER}
        if not isinstance(node, ast.BinOp):
            kinds = kinds - {PARTLY} | ((over | self._spread(node)) & {PARTLY})
        if isinstance(node, ast.BinOp) and LOCAL in kinds:
            kinds = kinds - {LOCAL} | {RANK}  # node * ranks of a node + local rank
        return ValueOrigin(kinds, made=SIFTED if sifted else None) if kinds else PLAIN_VALUE

    def _with_keys(self, keys: tuple[object, ...], values: Sequence[ast.expr]) -> ValueOrigin:
        """A dict whose keys are all written out: what it holds under each."""
        parts = tuple(self.of(value) for value in values)
        kinds = NO_ORIGINS.union(*(one.kinds for one in parts)) - {ORDER, PARTLY}
        return ValueOrigin(kinds, parts=parts, keys=keys)

    def _sifted(self, node: ast.expr) -> frozenset[str]:
        """``[p.grad for p in parameters if p.grad is not None]``: how many are left is this rank's own."""
        tests = [test for one in node.generators for test in one.ifs] if isinstance(node, _COMPREHENSIONS) else []
        kinds = NO_ORIGINS.union(*(self._truth(test).kinds for test in tests))
        return frozenset({DATA}) if kinds & {DATA, CHANCE} else NO_ORIGINS

    def _spread(self, node: ast.expr) -> frozenset[str]:
        """Of what is in ``{**some}`` as a whole."""
        if not isinstance(node, ast.Dict):
            return NO_ORIGINS
        whole = [one for key, one in zip(node.keys, node.values, strict=True) if key is None]
        return NO_ORIGINS.union(*(self.of(one).kinds for one in whole))

    def _truth(self, node: ast.expr) -> ValueOrigin:
        test = self.test(node)
        kinds, beside = test.kinds, (term for term in test_terms(test) if not term.kinds and term.known is None)
        if test.how == "or" and kinds & RANK_ORIGINS and any(True for _ in beside):
            kinds |= {SETTING}
        leaf = test.parts[0].leaf if test.how == "not" else test.leaf
        key = (leaf.key, leaf.positive is (test.how != "not")) if leaf is not None and leaf.key[0] == "<" else None
        return ValueOrigin(kinds, key)

    def _name(self, name: str) -> ValueOrigin:
        if name in self.names:
            return self.names[name]
        for scope in reversed(self.here.scopes[:-1]):
            if name in (final := self.known.finals.get(scope, {})):
                return final[name]
        return self.by_name(name)

    def by_name(self, name: str) -> ValueOrigin:
        """What a name of this function tells where nothing is known to give it a value."""
        return value_of_name(name, self.here.name, self.here.owner.name if self.here.owner is not None else "")

    def _attribute(self, node: ast.Attribute) -> ValueOrigin:
        if node.attr in source_names("structure_attribute"):
            return PLAIN_VALUE
        if is_matrix_rank(node.attr, name_asked(node.value)):
            return PLAIN_VALUE
        owner = self.owner_of(node)
        known = self._learned_of(owner, node.attr)
        named = value_of_name(node.attr)
        if known is not None and (known.kinds or owner is not None):
            return known if known.kinds or named.key is None else named
        got = self._property(node)
        if got.kinds:
            return got
        if named.kinds:
            return named
        inner = self.of(node.value)
        if BATCH in inner.kinds and inner.made == LOOP and node.attr != "shape":
            return ValueOrigin(inner.kinds & {DATA, BATCH}, made=LOOP)
        kinds = inner.kinds & {DATA} if node.attr in source_names("number_attribute") else NO_ORIGINS
        return ValueOrigin(kinds) if kinds else PLAIN_VALUE

    def _learned_of(self, owner: ClassDefinition | None, name: str) -> ValueOrigin | None:
        """What is known of an attribute; a class above may have set it."""
        kinds = self.known.calls.table.lineage(owner) if owner is not None else (None,)
        return next((held for kind in kinds if (held := self.known.attributes.get((kind, name))) is not None), None)

    def owner_of(self, node: ast.Attribute) -> ClassDefinition | None:
        """The class that keeps the attribute; None where several may, or none is known."""
        if not isinstance(node.value, ast.Name):
            return None
        if node.value.id == "self":
            return self.here.owner
        kinds = self.known.calls.instances(node.value, self.here)
        return kinds[0] if len(kinds) == 1 else None

    def _property(self, node: ast.Attribute) -> ValueOrigin:
        """What the properties of the program give that may be meant."""
        found = [self.known.returns.get(one, PLAIN_VALUE) for one in self.known.calls.property_of(node, self.here)]
        if not found or any(one.key != found[0].key for one in found):
            return PLAIN_VALUE
        kinds = frozenset(kind for one in found for kind in one.kinds if kind[0] != "=")
        return ValueOrigin(kinds, found[0].key, None, found[0].only)

    def _subscript(self, node: ast.Subscript) -> ValueOrigin:
        if is_environ(node.value):
            name = node.slice.value if isinstance(node.slice, ast.Constant) else ""
            return value_of_variable(str(name))
        base, index = self.of(node.value), self.of(node.slice) if isinstance(node.slice, ast.expr) else PLAIN_VALUE
        if isinstance(node.slice, ast.Constant) and node.slice.value in base.keys:
            return base.parts[base.keys.index(node.slice.value)]
        if base.made == EQUAL and not index.kinds:
            return base  # of a list that was broadcast
        masked = isinstance(node.slice, ast.Compare) or (
            isinstance(node.slice, ast.Call) and call_name(node.slice) in source_names("mask")
        )
        kinds = (base.kinds - {PARTLY, ORDER}) | (index.kinds & RANK_ORIGINS) | ({DATA} if masked else NO_ORIGINS)
        return ValueOrigin(frozenset(kinds)) if kinds else PLAIN_VALUE

    def _call(self, node: ast.Call) -> ValueOrigin:
        name = call_name(node)
        if asks_environment(node):
            word = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
            return value_of_variable(str(word))
        own = self._own(node)
        if own is not None:
            return own
        if name in source_names("rank_call"):
            return value_of_call(name, node)
        if (named := value_of_name(name)).key is not None:
            return named  # ``is_master(args)``, from where nobody knows
        if name in source_names("structure_question"):
            return PLAIN_VALUE
        if name in RANDOM_FUNCTIONS and is_random_number(
            node, self.known.calls.table.outside(node.func, self.here), self.known.seeds
        ):
            return ValueOrigin(frozenset({CHANCE}))
        if name in source_names("file_question"):
            return ValueOrigin(frozenset({FILES}))
        if name in source_names("clock") and dotted(node.func) in (name, f"time.{name}"):
            return ValueOrigin(frozenset({TIME}))
        if name == "dict" and node.keywords and not node.args and all(word.arg for word in node.keywords):
            return self._with_keys(tuple(word.arg for word in node.keywords), [word.value for word in node.keywords])
        return self._of_library(node, name)

    def _of_library(self, node: ast.Call, name: str) -> ValueOrigin:
        if name in source_names("progress_bar") and node.args:
            return self.of(node.args[0])  # what is shown while it is gone through is gone through as before
        given = [*node.args, *(word.value for word in node.keywords if name != "trange")]  # those draw its bar
        kinds = NO_ORIGINS.union(*(self.of(one.value if isinstance(one, ast.Starred) else one).kinds for one in given))
        behind = self.of(node.func.value).kinds if isinstance(node.func, ast.Attribute) else NO_ORIGINS
        if name in ("get", "pop") and PARTLY in behind:
            return ValueOrigin(frozenset({GROUP_RANK}), only=True)
        order = frozenset({ORDER}) if returns_set_order(node, kinds, behind) else NO_ORIGINS
        if name not in source_names("keeps_value"):
            passed = {DATA, BATCH, PARTLY} | RANK_ORIGINS if name in source_names("keeps_items") else {DATA, BATCH}
            kinds, behind = kinds & passed, behind & passed
        kinds, behind = kinds - {ORDER} | order, behind - {ORDER} - ({BATCH} if name == "size" else NO_ORIGINS)
        if name in source_names("number_question") or is_own_data(name, _last_owner(node)):
            behind |= {DATA}
        if kinds | behind:
            return ValueOrigin(kinds | behind)
        equal = isinstance(node.func, ast.Attribute) and self.of(node.func.value).made == EQUAL
        return ValueOrigin(made=EQUAL) if equal else PLAIN_VALUE

    def _own(self, node: ast.Call) -> ValueOrigin | None:
        targets = self.known.calls.called(node, self.here)
        if not targets or targets[0].name == "__init__":
            return None
        if self._differentiated is None:
            self._differentiated = differentiated_calls(self.here, self.known.calls)
        if node in self._differentiated:
            return ValueOrigin(frozenset({DATA}))
        found: ValueOrigin | None = None
        for target, given in self.known.calls.arguments(node, self.here):
            told = self.known.returns.get(target)
            if told is None:
                continue
            one = self._filled_in(told, given)
            found = one if found is None else either_value(found, one)
        if found is None:
            return PLAIN_VALUE
        named = value_of_call(call_name(node), node)
        return named if not found.kinds and named.kinds and call_name(node) in source_names("rank_call") else found

    def _filled_in(self, told: ValueOrigin, given: Mapping[str, ast.expr]) -> ValueOrigin:
        """What a function returns, with what it was given here."""
        kinds = frozenset(kind for kind in told.kinds if kind[0] != "=")
        for kind in told.kinds - kinds:
            value = given.get(kind[1:])
            kinds |= self.of(value).kinds if value is not None else NO_ORIGINS
        parts = tuple(self._filled_in(one, given) for one in told.parts)
        made = told.made if told.made in (EQUAL, SIFTED) else None
        return replace(told, kinds=kinds, made=made, parts=parts)

    # -- tests

    def test(self, node: ast.expr) -> BranchTest:
        """``node`` as a test, with what is known of each part."""
        return branch_test(node, self.of)


def _last_owner(call: ast.Call) -> str:
    return name_asked(call.func.value).strip("_") if isinstance(call.func, ast.Attribute) else ""


def differs_by_process(node: ast.expr, values: RankDependentValues, deep: int = _MAX_DEPTH) -> bool:
    """Whether ranks that are listed in ``node`` are made of the asking process's own number."""
    for inner in walk(node):
        if not isinstance(inner, ast.Name | ast.Attribute | ast.Call):
            continue
        owner, _, name = dotted(inner.func if isinstance(inner, ast.Call) else inner).rpartition(".")
        if lists_own_group(name, owner.rpartition(".")[2]):
            return True
        if isinstance(inner, ast.Call) and call_name(inner) == "range":
            continue  # its arguments are asked one by one
        if values.of(inner).kinds & _OWN:
            return True
        given = assigned_values(values.here.node, inner.id) if isinstance(inner, ast.Name) and deep else ()
        if any(one is not None and differs_by_process(one, values, deep - 1) for one in given):
            return True
    return False


def iterates_over_set(node: ast.expr, kinds: Collection[str]) -> bool:
    """Whether iterating over ``node`` follows the order of a set; ``kinds``: of what it is made of."""
    if isinstance(node, ast.Set):
        return not all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in node.elts)
    if isinstance(node, ast.SetComp):
        return not _counts(node.generators[0].iter)
    if isinstance(node, ast.BinOp):
        keys = any(isinstance(one, ast.Call) and call_name(one) == "keys" for one in (node.left, node.right))
        return isinstance(node.op, _SET_OPERATORS) and (keys or ORDER in kinds)
    return isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and ORDER in kinds


def returns_set_order(node: ast.Call, given: Collection[str], behind: Collection[str]) -> bool:
    """The same of what a library's function gives; ``given``, ``behind``: of its arguments and what it is called of."""
    name = call_name(node)
    if name in _SETS:
        return not node.args or not _counts(node.args[0])
    if ORDER in given and name in source_names("keeps_order"):
        return True
    return ORDER in behind and name in source_names("set_method")


def _counts(node: ast.expr) -> bool:
    """Whole numbers hash to themselves, alike everywhere."""
    return isinstance(node, ast.Call) and call_name(node) == "range"


def is_random_number(node: ast.Call, full_name: str, seeded: Collection[str]) -> bool:
    """Whether ``node`` gives a random number from a generator that is not among those ``seeded`` alike everywhere."""
    module, _, name = full_name.rpartition(".")
    if name not in _NUMBERS.get(module, ()) or _GENERATORS[module] in seeded:
        return False
    if any(word.arg in ("generator", "size") for word in node.keywords):
        return False
    if module == "torch":
        return bool(node.args) and _is_one(node.args[-1])
    return not (name == "rand" and node.args) and len(node.args) < 3


def _is_one(node: ast.expr) -> bool:
    """The size of a single number."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_one(one) for one in node.elts)
    return isinstance(node, ast.Constant) and node.value == 1
