"""What a program draws at random where data is split, shuffled or filtered, and how the same is written with a seed.

The way with a seed is made of the expression itself, so that it can be pasted: what it calls, with its own arguments.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unhang.knowledge.collectives import source_names
from unhang.program.syntax.syntax_tree import ParsedFile, Scope, call_name, children, dotted, names_in, own_nodes, walk

GENERATORS = ("python", "numpy", "torch")
_ALIASES = {"np": "numpy", "wds": "webdataset", "pd": "pandas"}
_WITH_GENERATOR = {"random_split", "randperm", "RandomSampler", "SubsetRandomSampler", "DataLoader"}
_OF_MODULE = {"random": {"shuffle", "sample", "choices"}, "numpy.random": {"permutation", "shuffle"}}
_NUMBERS = {
    *("torch.rand", "random.random", "random.uniform"),
    *(f"numpy.random.{name}" for name in ("rand", "random", "random_sample", "uniform")),
}
_OWN_GENERATORS = {"default_rng", "RandomState", "Random"}
"""Of NumPy and of Python: an object that draws from a state of its own."""
_MAX_LINKS = 4
"""So many names a draw is followed through."""
_CALL_CHARS = 100
"""Longer calls are shown without their arguments."""
SEEDED_TORCH_GENERATOR = "torch.Generator().manual_seed(42)"
SEEDS = {"python": "random.seed(42)", "numpy": "numpy.random.seed(42)", "torch": "torch.manual_seed(42)"}
"""What seeds each global generator."""
_Fed = dict[ast.Call, bool]
"""Draws that an expression is made of; True: compared with something on the way."""


@dataclass(frozen=True, slots=True)
class RandomDraw:
    """``node`` draws from ``generator``: a global one, ``hash`` (the order of a set), ``own``, or empty (not told)."""

    node: ast.AST
    call: str
    generator: str
    seeded: str
    """The same with a seed, as Python."""
    splits: bool = False
    """It decides how the data is parted, not only its order."""
    seeds: tuple[ast.expr, ...] = ()
    """What it is seeded with already."""
    argument: tuple[str, str] = ("", "")
    """The argument that seeds it, and its value, as Python."""


class NameMeanings:
    """What the names of a program stand for: modules under other names, and what is assigned once."""

    def __init__(self, program: ParsedFile) -> None:
        self._modules = dict(_ALIASES)
        self._values: dict[str, ast.expr | None] = {}
        for node in program.nodes:
            if isinstance(node, ast.Import):
                self._modules.update((name.asname, name.name) for name in node.names if name.asname)
            elif isinstance(node, ast.ImportFrom) and node.module:
                self._modules.update((n.asname or n.name, f"{node.module}.{n.name}") for n in node.names)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and (name := dotted(node.targets[0])):
                self._values[name] = None if name in self._values else node.value

    def full(self, node: ast.AST) -> str:
        """``np.random.rand`` as ``numpy.random.rand``."""
        root, dot, rest = dotted(node).partition(".")
        return self._modules.get(root, root) + dot + rest

    def value(self, node: ast.AST) -> ast.expr | None:
        """What the name or attribute was assigned; None where it was assigned twice, or not here."""
        return self._values.get(dotted(node))

    def comes_from(self, node: ast.AST, module: str) -> bool:
        """Whether a chain of calls (``wds.WebDataset(x).decode()``) begins with something of ``module``."""
        for _ in range(64):
            while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
                node = node.func if isinstance(node, ast.Call) else node.value
            if self.full(node).partition(".")[0] == module:
                return True
            known = self.value(node)
            if known is None:
                return False
            node = known
        return False


def find_random_draws(scope: Scope, names: NameMeanings) -> Iterator[RandomDraw]:
    """The draws of a scope, without those of functions inside it; none of what makes a sample (augmentation)."""
    if getattr(scope, "name", "") in source_names("makes_sample"):
        return
    nodes = own_nodes(scope)
    parting = _parting_draws(nodes)
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from (replace(one, splits=one.splits or node in parting) for one in _of_call(node, names))
            yield from _of_numbers(node, names) if node in parting else ()
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            yield from _of_a_set(node, names)


# -- which draws decide how the data is parted


def _parting_draws(nodes: Sequence[ast.AST]) -> set[ast.Call]:
    """Draws that say which data is taken: in a filter, a mask or a bound, themselves or by a name."""
    if not any(isinstance(node, ast.Call) and call_name(node) in source_names("draws") for node in nodes):
        return set()
    held: dict[str, _Fed] = {}
    bound = [pair for node in nodes for pair in _bindings(node) if pair[0].strip(".") == pair[0] != ""]
    for name, value in bound * _MAX_LINKS:
        held.setdefault(name, {}).update(_carried(value, held))
    whole, tests = _parts(nodes)
    compared = [one for test in tests for one in walk(test) if isinstance(one, ast.Compare)]
    found = {call for one in (*whole, *compared) for call in _carried(one, held)}
    return found | {call for one in tests for call, was_compared in _carried(one, held).items() if was_compared}


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with what they get; a shuffle in place gives its argument the order it drew."""
    if isinstance(node, ast.Assign):
        yield from ((dotted(target), node.value) for target in node.targets)
    elif isinstance(node, ast.For | ast.comprehension):
        names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        each = node.iter.args if isinstance(node.iter, ast.Call) and call_name(node.iter) == "zip" else []
        yield from zip(map(dotted, names), each if len(each) == len(names) else [node.iter] * len(names), strict=True)
    elif isinstance(node, ast.Call) and call_name(node) == "shuffle" and node.args:
        yield dotted(node.args[0]), node


def _carried(node: ast.expr, held: Mapping[str, _Fed]) -> _Fed:
    """The draws that ``node`` gives on, as they are or compared; not what is computed from them."""
    fed: _Fed = {}
    waiting: list[ast.AST] = [node]
    compared = isinstance(node, ast.Compare)
    while waiting:
        one = waiting.pop()
        name = call_name(one) if isinstance(one, ast.Call) else ""
        if isinstance(one, ast.Name | ast.Attribute):
            fed |= {call: compared or was for call, was in held.get(dotted(one), {}).items()}
        if name in source_names("draws") and isinstance(one, ast.Call):
            fed[one] = compared
        elif (not name or name in source_names("keeps_drawn")) and not _computes(one):
            compared = compared or isinstance(one, ast.Compare)
            waiting += children(one)
    return fed


def _computes(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and not isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor)


def _parts(nodes: Sequence[ast.AST]) -> tuple[list[ast.expr], list[ast.expr]]:
    """What decides which data is taken: expressions that do so whatever they are made of, and tests and masks."""
    cuts = [one for one in nodes if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Slice)]
    first, second = (
        {dotted(one.value) for one in cuts if isinstance(one.slice, ast.Slice) and getattr(one.slice, side) is None}
        for side in ("lower", "upper")
    )
    whole = [one.value for one in cuts if dotted(one.value).strip(".") and dotted(one.value) in first & second]
    tests = [one.slice for one in nodes if isinstance(one, ast.Subscript) and not isinstance(one.slice, ast.Slice)]
    for node in nodes:
        if isinstance(node, ast.comprehension):
            tests += node.ifs
        elif isinstance(node, ast.For):
            tests += _tests_of_items(node)
        elif isinstance(node, ast.Call) and call_name(node) == "filter":
            tests += (one.body for one in node.args if isinstance(one, ast.Lambda))
        elif isinstance(node, ast.Call) and call_name(node) in source_names("takes_part"):
            whole += (*node.args, node.func)
    return whole, tests


def _tests_of_items(loop: ast.For) -> Iterator[ast.expr]:
    """``if random() < 0.9: kept.append(row)`` in a loop over rows: the tests that decide where a row goes."""
    own = {node.id for node in walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    ends = {node: end for node in walk(loop) if (end := _end_of_item(node, own))}
    for node in walk(loop) if {*ends.values()} - {"continue"} else ():
        if isinstance(node, ast.If):
            sides = [[inner for one in side for inner in walk(one)] for side in (node.body, node.orelse)]
            ways = [{ends[inner] for inner in side if inner in ends} for side in sides]
            if ways[0] != ways[1]:
                yield node.test


def _end_of_item(node: ast.AST, own: set[str]) -> str:
    """What keeps an item of the loop (of its ``own`` names), or goes on without it; empty for anything else."""
    if isinstance(node, ast.Continue):
        return "continue"
    if isinstance(node, ast.Call) and call_name(node) in source_names("keeps_item"):
        return dotted(node.func) if any(names_in(one) & own for one in node.args) else ""
    kept = isinstance(node, ast.Yield) and node.value is not None and names_in(node.value) & own
    return "yield" if kept else ""


# -- the draws, and the same with a seed


def _of_call(call: ast.Call, names: NameMeanings) -> Iterator[RandomDraw]:
    name, full = call_name(call), names.full(call.func)
    module = full.rpartition(".")[0]
    if name == "DataLoader" and (not _says(call, "shuffle", True) or _given(call, "sampler", "batch_sampler")):
        return
    if name in _WITH_GENERATOR and not _given(call, "device"):
        yield _with(call, "torch", "generator", SEEDED_TORCH_GENERATOR, splits=name == "random_split")
    elif name == "train_test_split" and not _says(call, "shuffle", False):
        of_sklearn = isinstance(call.func, ast.Name) or "model_selection" in full
        yield _with(call, "numpy", "random_state" if of_sklearn else "seed", "42", splits=True)
    elif name in _OF_MODULE.get(module, ()):
        yield _of_module(call, module)
    elif name == "shuffle" and isinstance(call.func, ast.Attribute):
        yield from _shuffled(call, call.func.value, names)
    elif name in ("permutation", "sample", "choices") and isinstance(call.func, ast.Attribute):
        yield from _of_own(call, call.func.value, names)
        if name == "sample" and (_given(call, "frac", "n") or names.comes_from(call.func.value, "pandas")):
            yield _with(call, "numpy", "random_state", "42")


def _shuffled(call: ast.Call, receiver: ast.expr, names: NameMeanings) -> Iterator[RandomDraw]:
    own = list(_of_own(call, receiver, names))
    if own:
        yield from own
    elif names.comes_from(receiver, "webdataset"):
        yield _with(call, "own", "rng", "random.Random(42)")
    else:
        yield _with(call, "", "seed", "42", also=tuple(call.args[:1]))  # of datasets, whose first argument is the seed


def _of_own(call: ast.Call, receiver: ast.expr, names: NameMeanings) -> Iterator[RandomDraw]:
    """A draw from an object with a state of its own: seeded where that was made."""
    made = names.value(receiver)
    if not isinstance(made, ast.Call) or call_name(made) not in _OWN_GENERATORS:
        return
    seeds = tuple(value for value in (*made.args, *(keyword.value for keyword in made.keywords)) if not _is_none(value))
    seeded = f"{ast.unparse(receiver)} = {ast.unparse(made.func)}(42)"
    yield RandomDraw(call, dotted(call.func), "own", seeded, seeds=seeds)


def _of_module(call: ast.Call, module: str) -> RandomDraw:
    spelt = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else module
    seeded = copy.deepcopy(call)
    source = f"{spelt}.Random(42)" if module == "random" else f"{spelt}.default_rng(42)"
    seeded.func = ast.Attribute(_expression(source), call_name(call), ast.Load())
    generator = "python" if module == "random" else "numpy"
    return RandomDraw(call, dotted(call.func), generator, _written(seeded))


def _of_a_set(part: ast.Subscript, names: NameMeanings) -> Iterator[RandomDraw]:
    """``list(set(x))[:n]``: the order of a set of strings is another in every process, whatever is seeded."""
    listed = part.value if isinstance(part.value, ast.Call) else names.value(part.value)
    if not isinstance(listed, ast.Call) or call_name(listed) not in ("list", "tuple") or len(listed.args) != 1:
        return
    inner = listed.args[0]
    of_set = isinstance(inner, ast.Set | ast.SetComp) or (isinstance(inner, ast.Call) and call_name(inner) == "set")
    if of_set:
        ordered = ast.Subscript(ast.Call(ast.Name("sorted"), [inner], []), part.slice, ast.Load())
        yield RandomDraw(part, f"{call_name(listed)}(set(…))", "hash", _written(ordered))


def _of_numbers(call: ast.Call, names: NameMeanings) -> Iterator[RandomDraw]:
    """Random numbers in a filter or a mask (``rand(n) < 0.9``): how many it takes differs with every draw."""
    full, func = names.full(call.func), call.func
    if isinstance(func, ast.Attribute) and func.attr not in ("permutation", "sample", "choices", "shuffle"):
        yield from (replace(one, splits=True) for one in _of_own(call, func.value, names))
    if full == "numpy.random.choice":
        yield replace(_of_module(call, "numpy.random"), splits=True)
    elif full in _NUMBERS and not _given(call, "device"):
        seeds = tuple(keyword.value for keyword in call.keywords if keyword.arg == "generator")
        generator = full.partition(".")[0].replace("random", "python")
        yield RandomDraw(call, dotted(func), generator, _numbers_seeded(call, full), splits=True, seeds=seeds)


def _numbers_seeded(call: ast.Call, full: str) -> str:
    module, _, name = full.rpartition(".")
    if module == "torch":
        return ast.unparse(_keyword(call, "generator", SEEDED_TORCH_GENERATOR))
    if module == "random":
        drawn = ast.unparse(ast.Call(_expression(f"draw.{name}"), call.args, call.keywords))
        return f"draw = random.Random(42)\n{drawn}"
    spelt = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else module
    method = _expression(f"{spelt}.default_rng(42).{'uniform' if name == 'uniform' else 'random'}")
    shape: list[ast.expr] = [ast.Tuple(call.args, ast.Load())] if name == "rand" else call.args
    return ast.unparse(ast.Call(method, shape, call.keywords))


def _with(
    call: ast.Call, generator: str, name: str, value: str, *, splits: bool = False, also: tuple[ast.expr, ...] = ()
) -> RandomDraw:
    words = ("generator", "seed", "random_state", "rng", "seeds")
    seeds = tuple(k.value for k in call.keywords if k.arg in words and not _is_none(k.value))
    seeded = _written(_keyword(call, name, value))
    return RandomDraw(call, dotted(call.func), generator, seeded, splits, seeds + also, (name, value))


def _keyword(call: ast.Call, name: str, value: str) -> ast.Call:
    seeded = copy.deepcopy(call)
    seeded.keywords = [keyword for keyword in seeded.keywords if keyword.arg != name]
    seeded.keywords.append(ast.keyword(name, _expression(value)))
    return seeded


def _written(node: ast.Call | ast.Subscript) -> str:
    text = ast.unparse(node)
    if len(text) <= _CALL_CHARS or not isinstance(node, ast.Call):
        return text
    return ast.unparse(ast.Call(node.func, [ast.Constant(...)], node.keywords[-1:]))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _given(call: ast.Call, *names: str) -> bool:
    return any(keyword.arg in names and not _is_none(keyword.value) for keyword in call.keywords)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _says(call: ast.Call, name: str, value: bool) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is value for k in call.keywords)
