"""What names of libraries say of how a value may differ by rank: what they keep, ask, count, and what every process
makes for itself, as the order of a set of strings and random numbers."""

from __future__ import annotations

import ast
from collections.abc import Collection

from unhang.program.data_flow.function_steps import ORDER
from unhang.program.syntax.syntax_tree import call_name

PROGRESS_WRAPPERS = {"tqdm", "track"}
"""Their other arguments say whether a bar is drawn."""
FILE_QUESTIONS = {"exists", "isfile", "isdir", "islink", "is_file", "is_dir", "is_symlink", "lexists", "iterdir"}
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "time_ns"}
NUMBER_QUESTIONS = {"isnan", "isinf", "isfinite"}
MASKING_CALLS = {"nonzero", "masked_select", "bool", "argwhere"}
TENSOR_METHODS = {
    *("int", "bool", "str", "float", "min", "max", "abs", "len", "range", "enumerate"),
    *("zip", "islice", "list", "tuple", "sorted", "reversed", "iter", "tqdm", "trange", "sum"),
    *("round", "divmod", "pow", "next", "get", "item", "strip", "cycle", "chain", "any", "all"),
    *("tensor", "as_tensor", "Tensor", "to", "cuda", "cpu", "detach", "clone", "full", "numel", "size"),
}
STRUCTURE_QUESTIONS = {
    "isinstance",
    "hasattr",
    "callable",
    "type",
    "issubclass",
    "dim",
    "ndimension",
    "get_device",
    "is_tensor",
}
NUMBER_ATTRIBUTES = {"shape", "data", "loss", "losses", "grad", "T", "values"}
"""Attributes that hold numbers of what they belong to; any other may be a setting."""
STRUCTURE_ATTRIBUTES = {"dtype", "device", "ndim", "requires_grad", "is_cuda"}
DISTRIBUTED_QUESTIONS = {
    *("is_initialized", "is_available", "is_distributed", "is_dist_avail_and_initialized", "is_dist_initialized"),
    *("distributed", "is_dist", "use_dist", "is_ddp", "use_ddp", "is_multi_gpu", "is_dist_available"),
    *("is_torchelastic_launched", "use_distributed", "is_distributed_initialized"),
}
ENGINE_NAMES = {"accelerator", "fabric"}
"""A job of several ranks that asks for one of these has it."""
WORLD_SIZES = {"world_size", "get_world_size", "num_processes", "WORLD_SIZE", "get_num_processes", "n_gpus_total"}
KEEPS_ITEMS = {"dict", "items", "keys", "values", "copy", "deepcopy", "defaultdict", "OrderedDict"}
_SETS = {"set", "frozenset"}
_OF_SETS = {"union", "intersection", "difference", "symmetric_difference", "copy", "keys"}
_KEEP_ORDER = {
    *("list", "tuple", "iter", "enumerate", "reversed", "tqdm", "track", "zip", "map", "filter", "chain", "cycle"),
    *("fromkeys", "deepcopy", "islice", "join"),
}
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
    return (name in _KEEP_ORDER and ORDER in given) or (name in _OF_SETS and ORDER in behind)


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
