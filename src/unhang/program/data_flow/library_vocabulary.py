"""What every process makes for itself: the order of a set of strings, and random numbers."""

from __future__ import annotations

import ast
from collections.abc import Collection

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.function_steps import ORDER
from unhang.program.syntax.syntax_tree import call_name

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
