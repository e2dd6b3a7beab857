"""Places where a program splits or shuffles its data without a seed: every rank may get another split."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from unhang.evidence.items import SourceFile
from unhang.program.rank_dependence.random_draws import NameMeanings, RandomDraw, find_random_draws
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
    read = _read(file for file in files if any(word in file.text for word in _WORDS))
    seeds = _seeds_of([program for _, program in read], reached)
    return tuple((file, split) for file, program in read for split in _splits(program, seeds))


def seeded_alike(files: Iterable[SourceFile]) -> frozenset[str]:
    """Global generators that a program seeds, and nowhere with what differs by rank."""
    seeds = _seeds_of([program for _, program in _read(file for file in files if "seed" in file.text)])
    return frozenset(seeds.common - seeds.differs.keys())


def _read(files: Iterable[SourceFile]) -> list[tuple[SourceFile, ParsedFile]]:
    return list(parsed_files(files))


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
                found.add(UnseededSplit(line, draw.call, why, drawn, seeded, draw.seeded, draw.splits, settled))
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
    if _is_true(call, "device_specific"):
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


def _is_true(call: ast.Call, name: str) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords)
