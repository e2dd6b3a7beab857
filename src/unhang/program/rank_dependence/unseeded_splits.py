"""Places where a program splits or shuffles its data without a seed: every rank may get another split.

The way with a seed is made of the expression itself, so that it can be pasted: what it calls, with its own arguments.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from unhang.evidence.items import SourceFile
from unhang.program.rank_dependence.rank_values import RankValues, rank_values
from unhang.program.syntax.syntax_tree import ParsedFile, Scope, call_name, dotted, own_nodes, parsed_files

_SEEDS_ALL = {"set_seed", "seed_everything", "seed_all", "enable_full_determinism"}
_SEEDS_TORCH = ("torch.manual_seed", "manual_seed", "torch.random.manual_seed")
GENERATORS = ("python", "numpy", "torch")
_WORDS = (
    *("random_split", "train_test_split", "randperm", "RandomSampler", "permutation", "shuffle", "sample", "choices"),
    *("DataLoader", "seed", "rand(", "random(", "uniform(", "set("),
)
_RANDOM_MODULES = {"random": "python", "np.random": "numpy", "numpy.random": "numpy"}
_ALIASES = {"np": "numpy", "wds": "webdataset", "pd": "pandas"}
_WITH_GENERATOR = {"random_split", "randperm", "RandomSampler", "SubsetRandomSampler", "DataLoader"}
_OF_MODULE = {"random": {"shuffle", "sample", "choices"}, "numpy.random": {"permutation", "shuffle"}}
_NUMBERS = {
    *("torch.rand", "random.random", "random.uniform"),
    *(f"numpy.random.{name}" for name in ("rand", "random", "random_sample", "uniform")),
}
_OWN_GENERATORS = {"default_rng", "RandomState", "Random"}
"""Of NumPy and of Python: an object that draws from a state of its own."""
_CALL_CHARS = 100
"""Longer calls are shown without their arguments."""
SEEDED_TORCH_GENERATOR = "torch.Generator().manual_seed(42)"
SEEDS = {"python": "random.seed(42)", "numpy": "numpy.random.seed(42)", "torch": "torch.manual_seed(42)"}
"""What seeds each global generator."""


@dataclass(frozen=True, slots=True)
class UnseededSplit:
    """A call that gives other data on every rank. ``why`` is ``no-seed``, ``seed-differs`` (seeded with the rank) or
    ``hash-order`` (strings have other hashes in every process)."""

    line: int
    call: str
    why: str
    draws_from: str = ""
    """The global generator it draws from: ``python``, ``numpy`` or ``torch``; empty where its name does not tell."""
    seeded: tuple[str, ...] = ()
    """The global generators that the program does seed, which do not help."""
    with_seed: str = ""
    """The call with a seed that is the same on all ranks, as Python."""
    splits: bool = False
    """It decides how the data is parted, not only its order."""
    settled: bool = True
    """What decides stands in the same function, or nowhere; elsewhere only running tells what comes first."""
    argument: tuple[str, str] = ("", "")
    """The argument of the call that seeds it, and its value, as Python; empty where it has none."""

    @property
    def edit(self) -> dict[str, str]:
        """What ``knowledge/edits.toml`` fills in; nothing where the order alone is drawn, which may differ by rank."""
        name, value = self.argument if self.splits else ("", "")
        seeds = SEEDS.get(self.draws_from, "") if self.splits and self.why == "no-seed" else ""
        return {"argument": name, "seed": value, "seed_all": seeds}


@dataclass(slots=True)
class _Seeds:
    """Global generators that some file seeds: ``common`` to all ranks, or with what ``differs`` by rank (and where)."""

    common: set[str] = field(default_factory=set)
    differs: dict[str, set[Scope]] = field(default_factory=dict)


def unseeded_splits(
    files: Iterable[SourceFile], reached: Container[Scope] | None = None
) -> tuple[tuple[SourceFile, UnseededSplit], ...]:
    """Splits and shuffles of a program that have no seed common to all ranks, in the order of its files and lines.

    A seed set in one file counts in all; ``reached``: functions that the launch comes to, where that is known.
    Supporting evidence only: what runs first is not known, nor what libraries do.
    """
    read = list(parsed_files(file for file in files if any(word in file.text for word in _WORDS)))
    seeds = _seeds_of([program for _, program in read], reached)
    return tuple((file, split) for file, program in read for split in _splits(program, seeds))


def seeded_alike(files: Iterable[SourceFile]) -> frozenset[str]:
    """Global generators that a program seeds, and nowhere with what differs by rank."""
    seeds = _seeds_of([program for _, program in parsed_files(file for file in files if "seed" in file.text)])
    return frozenset(seeds.common - seeds.differs.keys())


def _seeds_of(programs: Sequence[ParsedFile], reached: Container[Scope] | None = None) -> _Seeds:
    own, seeds = {name for program in programs for name in _defined(program)}, _Seeds()
    for program in programs:
        _add_seeds(program, seeds, own, reached)
    return seeds


def unseeded_splits_in_file(source: SourceFile) -> tuple[UnseededSplit, ...]:
    """As :func:`unseeded_splits` for a program of one file; empty without usable source."""
    return tuple(split for _, split in unseeded_splits((source,)))


def _splits(program: ParsedFile, seeds: _Seeds) -> list[UnseededSplit]:
    values, names = rank_values(program), NameMeanings(program)
    found: set[UnseededSplit] = set()
    for scope, outer in program.owners.items():
        for draw in find_random_draws(scope, names):
            why = _why(draw, values, (*outer, scope), seeds)
            if why:
                seeded = tuple(name for name in GENERATORS if name in seeds.common) if why == "no-seed" else ()
                line = getattr(draw.node, "lineno", 1)
                drawn = draw.generator if draw.generator in GENERATORS else ""
                where = {one for name, every in seeds.differs.items() if name == drawn or not drawn for one in every}
                settled = why != "seed-differs" or bool(draw.seeds) or scope in where
                parts = (draw.seeded, draw.splits, settled, draw.argument)
                found.add(UnseededSplit(line, draw.call, why, drawn, seeded, *parts))
    return sorted(found, key=lambda split: (split.line, split.call))


def _defined(program: ParsedFile) -> Iterator[str]:
    """Functions the program defines itself: a ``set_seed`` of its own seeds what stands in it."""
    return (node.name for node in program.nodes if isinstance(node, ast.FunctionDef))


def _add_seeds(program: ParsedFile, seeds: _Seeds, own: set[str], reached: Container[Scope] | None) -> None:
    values = rank_values(program)
    for scope, outer in program.owners.items():
        if reached is not None and scope not in reached:
            continue
        scopes: Sequence[Scope] = (*outer, scope)
        for node in own_nodes(scope):
            seeded = _seeded_by(node, own) if isinstance(node, ast.Call) and _values(node) else set()
            if not seeded or not isinstance(node, ast.Call):
                continue
            if any(values.value_depends(argument, scopes) for argument in _values(node)):
                for name in seeded:
                    seeds.differs.setdefault(name, set()).add(scope)
            else:
                seeds.common |= seeded


def _seeded_by(call: ast.Call, own: set[str]) -> set[str]:
    """The global generators that ``call`` seeds."""
    name, full = call_name(call), dotted(call.func)
    if _says(call, "device_specific", True):
        return set()  # Accelerate and the Trainers built on it: another seed on every rank, for what is drawn in a step
    if name == "seed":
        module = _RANDOM_MODULES.get(full.rpartition(".")[0])
        return {module} if module else set()
    if name == "manual_seed":
        # `torch.Generator().manual_seed(0)` seeds that generator only; torch.cuda's draws nothing on the CPU
        return {"torch"} if full in _SEEDS_TORCH else set()
    return set(GENERATORS) if name in _SEEDS_ALL and name not in own else set()


def _why(draw: RandomDraw, values: RankValues, scopes: Sequence[Scope], seeds: _Seeds) -> str:
    if draw.seeds:
        return "seed-differs" if any(values.value_depends(value, scopes) for value in draw.seeds) else ""
    if draw.generator == "hash":
        return "hash-order"
    if draw.generator == "own":  # no global seed reaches it
        return "no-seed"
    if draw.generator in seeds.differs or (not draw.generator and seeds.differs):
        return "seed-differs"
    if draw.generator in seeds.common or (not draw.generator and seeds.common):
        return ""
    return "no-seed"


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _says(call: ast.Call, name: str, value: bool) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is value for k in call.keywords)


# -- what is drawn at random


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
    """The draws of a scope, without those of functions inside it."""
    nodes = list(own_nodes(scope))
    masks = {name for node in nodes if isinstance(node, ast.Subscript) for name in _masks(node.slice)}
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from _of_call(node, names)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            yield from _of_a_set(node, names)
        elif isinstance(node, ast.Subscript):
            yield from _of_numbers(node.slice, node.slice, names)
        elif isinstance(node, ast.Assign) and any(dotted(target) in masks for target in node.targets):
            yield from _of_numbers(node.value, node.value, names)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            for test in (test for generator in node.generators for test in generator.ifs):
                yield from _of_numbers(test, node, names)


def _of_call(call: ast.Call, names: NameMeanings) -> Iterator[RandomDraw]:
    name, full = call_name(call), names.full(call.func)
    module = full.rpartition(".")[0]
    if name == "DataLoader" and (not _says(call, "shuffle", True) or _given(call, "sampler", "batch_sampler")):
        return
    if name in _WITH_GENERATOR:
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


def _of_numbers(test: ast.AST, whole: ast.AST, names: NameMeanings) -> Iterator[RandomDraw]:
    """A mask made of random numbers (``rand(n) < 0.9``): how many it takes differs with every draw."""
    for compared in (node for node in ast.walk(test) if isinstance(node, ast.Compare)):
        for call in (node for node in ast.walk(compared) if isinstance(node, ast.Call)):
            full = names.full(call.func)
            if full in _NUMBERS and not _given(call, "device"):
                seeds = tuple(keyword.value for keyword in call.keywords if keyword.arg == "generator")
                yield RandomDraw(call, dotted(call.func), full.partition(".")[0].replace("random", "python"),
                           _mask(call, whole, full), splits=True, seeds=seeds)  # fmt: skip


def _mask(call: ast.Call, whole: ast.AST, full: str) -> str:
    if full == "torch.rand":
        return ast.unparse(
            _Replaced(call, _keyword(call, "generator", SEEDED_TORCH_GENERATOR)).visit(copy.deepcopy(whole))
        )
    if full.startswith("random."):
        drawn = ast.Call(ast.Attribute(ast.Name("draw"), call_name(call), ast.Load()), call.args, call.keywords)
        return "draw = random.Random(42)\n" + ast.unparse(_Replaced(call, drawn).visit(copy.deepcopy(whole)))
    spelt = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else "numpy.random"
    name = "uniform" if call_name(call) == "uniform" else "random"
    shape: list[ast.expr] = [ast.Tuple(call.args, ast.Load())] if call_name(call) == "rand" else call.args
    drawn = ast.Call(ast.Attribute(_expression(f"{spelt}.default_rng(42)"), name, ast.Load()), shape, call.keywords)
    return ast.unparse(_Replaced(call, drawn).visit(copy.deepcopy(whole)))


class _Replaced(ast.NodeTransformer):
    """One call of an expression in the place of another; a copy is told by where it stands."""

    def __init__(self, old: ast.Call, new: ast.Call) -> None:
        self._place, self._new = (old.lineno, old.col_offset, old.end_col_offset), new

    def visit_Call(self, node: ast.Call) -> ast.AST:
        place = (node.lineno, node.col_offset, node.end_col_offset)
        return self._new if place == self._place else self.generic_visit(node)


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


def _masks(index: ast.AST) -> Iterator[str]:
    for node in ast.walk(index):
        if isinstance(node, ast.Name | ast.Attribute):
            yield dotted(node)


def _given(call: ast.Call, *names: str) -> bool:
    return any(keyword.arg in names and not _is_none(keyword.value) for keyword in call.keywords)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
