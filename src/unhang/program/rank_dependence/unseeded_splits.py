"""Places where a program splits or shuffles its data without a seed: every rank may get another split.

What counts is which generator a draw uses and whether that was seeded before it: a seed that is set afterwards, or one
of another generator, does not help.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.knowledge.collectives import source_names
from unhang.program.rank_dependence.random_draws import GENERATORS, SEEDS, NameMeanings, RandomDraw, find_random_draws
from unhang.program.rank_dependence.rank_values import rank_values
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine
from unhang.program.syntax.execution_order import ExecutionOrder
from unhang.program.syntax.syntax_tree import call_name, dotted, names_in, parsed_files, statements

_WORDS = (
    *("random_split", "train_test_split", "randperm", "RandomSampler", "permutation", "shuffle", "sample", "choice"),
    *("DataLoader", "rand(", "random(", "uniform(", "set("),
)
SEEDING_TRAINERS = ("transformers.", "trl.")
"""Libraries whose trainers seed every generator with ``args.seed`` when they are made."""


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
    """What decides stands in the same function, is known to run before, or stands nowhere; else only running tells."""
    one_of: bool = False
    """It lies in one of several branches among which a text decides that this function made up: ``how == "random"``."""
    late: SourceLine | None = None
    """Where its generator is seeded, only after it has drawn."""
    argument: tuple[str, str] = ("", "")
    """The argument of the call that seeds it, and its value, as Python; empty where it has none."""

    @property
    def edit(self) -> dict[str, str]:
        """What ``knowledge/edits.toml`` fills in; nothing where the order alone is drawn, which may differ by rank."""
        name, value = self.argument if self.splits else ("", "")
        seeds = SEEDS.get(self.draws_from, "") if self.splits and self.why == "no-seed" else ""
        return {"argument": name, "seed": value, "seed_all": seeds}


@dataclass(frozen=True, slots=True)
class _Seed:
    """A call that seeds global generators, alike on all ranks or with what ``differs`` between them."""

    call: ast.Call
    here: FunctionDefinition
    generators: frozenset[str]
    differs: bool


def unseeded_splits(
    files: Iterable[SourceFile],
    calls: CallGraph | None = None,
    entered: Sequence[str] = (),
    reached: Container[FunctionDefinition] | None = None,
    *,
    strict: bool = False,
) -> tuple[tuple[SourceFile, UnseededSplit], ...]:
    """Splits and shuffles of a program that have no seed common to all ranks: those that part the data first, then in
    the order of files and lines.

    A seed counts in all files unless the source shows that it is set later. ``calls``: of these files, where they are
    known already; ``entered``: what is started; ``reached``: functions that the launch comes to, where that is known.
    ``strict``: only a seed counts that is known to be set before.
    Supporting evidence only: what libraries do is not known.
    """
    files = tuple(files)
    told = {file.path for file in files if any(word in file.text for word in _WORDS)}
    calls = calls or CallGraph(parsed_files(files if told else ()))
    named = {path for path in entered if path != files[0].path}  # by arguments: what calls into them is not known
    live = [one for one in calls.defined if reached is None or one in reached or one.file.path in named]
    scopes = [one for one in live if one.file.path in told]
    names = {program: NameMeanings(program) for program in {one.program for one in scopes}}
    drawn = [(one, draw) for one in scopes for draw in find_random_draws(one.node, names[one.program])]
    drawn = [(one, draw) for one, draw in drawn if not _is_of_a_model(one, calls)]
    if any(_shares_order(call, calls, one) for one in (live if drawn else ()) for call in one.calls):
        drawn = [(one, draw) for one, draw in drawn if not draw.call.endswith("DataLoader")]
    seeds = list(_seeds(calls, live)) if drawn else []
    order = ExecutionOrder(calls if seeds else CallGraph(()), entered)
    judged = ((one.file.path, _judged(draw, one, seeds, order, strict=strict)) for one, draw in drawn)
    found = {(path, split) for path, split in judged if split is not None}
    at = {file.path: number for number, file in enumerate(files)}
    ranked = sorted(found, key=lambda one: (not one[1].splits, at[one[0]], one[1].line, one[1].call))
    return tuple((files[at[path]], split) for path, split in ranked)


def seeded_alike(calls: CallGraph) -> frozenset[str]:
    """Global generators that a program seeds, and nowhere with what differs by rank."""
    seeds = tuple(_seeds(calls, calls.defined))
    differing = {name for seed in seeds if seed.differs for name in seed.generators}
    return frozenset(name for seed in seeds for name in seed.generators if name not in differing)


def _is_of_a_model(one: FunctionDefinition, calls: CallGraph, deep: int = 3) -> bool:
    """A method of what has a ``forward``, or called by such only: it masks what the model got, and parts no data."""
    if one.owner is not None and calls.table.method(one.owner, "forward") is not None:
        return True
    callers = calls.callers.get(one, ()) if deep and not isinstance(one.node, ast.Module) else ()
    return bool(callers) and all(_is_of_a_model(caller, calls, deep - 1) for caller, _ in callers)


def unseeded_splits_in_file(source: SourceFile) -> tuple[UnseededSplit, ...]:
    """As :func:`unseeded_splits` for a program of one file; empty without usable source."""
    return tuple(split for _, split in unseeded_splits((source,)))


def _shares_order(call: ast.Call, calls: CallGraph, here: FunctionDefinition) -> bool:
    """Accelerate's ``prepare`` gives the loaders of all ranks the generator of rank 0 (accelerate/data_loader.py)."""
    return call_name(call) == "Accelerator" and calls.table.outside(call.func, here).startswith("accelerate.")


def _judged(
    draw: RandomDraw, here: FunctionDefinition, seeds: Sequence[_Seed], order: ExecutionOrder, *, strict: bool
) -> UnseededSplit | None:
    early = [
        seed for seed in seeds if order.runs_before(seed.call, draw.node) not in ((False, None) if strict else (False,))
    ]
    own = [seed for seed in early if not draw.generator or draw.generator in seed.generators]
    why = _why(draw, here, own)
    if not why:
        return None
    drawn = draw.generator if draw.generator in GENERATORS else ""
    others = {name for seed in early if not seed.differs for name in seed.generators}
    deciding = [seed for seed in own if seed.differs]
    later = (seed for seed in seeds if drawn in seed.generators and order.runs_before(draw.node, seed.call))
    late = next(later, None) if why == "no-seed" else None
    return UnseededSplit(
        line=getattr(draw.node, "lineno", 1),
        call=draw.call,
        why=why,
        draws_from=drawn,
        seeded=tuple(name for name in GENERATORS if name in others) if why == "no-seed" else (),
        with_seed=draw.seeded,
        splits=draw.splits,
        settled=why != "seed-differs"
        or bool(draw.seeds)
        or any(seed.here is here or order.runs_before(seed.call, draw.node) for seed in deciding),
        one_of=_is_one_of_several(draw.node, here),
        late=None if late is None else late.here.at(late.call.lineno, dotted(late.call.func)),
        argument=draw.argument,
    )


def _is_one_of_several(node: ast.AST, here: FunctionDefinition) -> bool:
    line = getattr(node, "lineno", 0)
    for branch in (one for one in statements(here.node) if isinstance(one, ast.If)):
        ways = [branch]
        while len(ways[-1].orelse) == 1 and isinstance(ways[-1].orelse[0], ast.If):
            ways.append(ways[-1].orelse[0])
        names = [_chosen_by(way) for way in ways]
        for way, name in zip(ways, names, strict=True):
            inside = way.body[0].lineno <= line <= (way.body[-1].end_lineno or 0)
            if inside and name and names.count(name) > 1 and name not in here.parameters:
                return True
    return False


def _chosen_by(branch: ast.If) -> str:
    """The local name that its test compares with a text; empty where it does not."""
    tests = branch.test.values if isinstance(branch.test, ast.BoolOp) else [branch.test]
    for test in tests:
        if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.Eq):
            other = test.comparators[0]
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                return test.left.id
    return ""


def _why(draw: RandomDraw, here: FunctionDefinition, seeds: Sequence[_Seed]) -> str:
    if draw.seeds:
        return "seed-differs" if any(_differs(value, here) for value in draw.seeds) else ""
    if draw.generator == "hash":
        return "hash-order"
    if draw.generator != "own" and seeds:  # no global seed reaches an object of its own
        return "seed-differs" if any(seed.differs for seed in seeds) else ""
    return "no-seed"


def _differs(value: ast.expr, here: FunctionDefinition) -> bool:
    return bool(names_in(value)) and bool(rank_values(here.program).value_depends(value, here.scopes))


def _seeds(calls: CallGraph, live: Iterable[FunctionDefinition]) -> Iterator[_Seed]:
    own = {one.name for one in calls.defined}
    for one in live:
        for call in one.calls:
            if generators := _seeded_by(call, calls, one, own):
                yield _Seed(call, one, frozenset(generators), _differs_by_rank(call, calls, one))


def _differs_by_rank(call: ast.Call, calls: CallGraph, here: FunctionDefinition) -> bool:
    """Whether a seed is made of the rank, there or by who calls the function that sets it: ``set_seed(42 + rank)``."""
    if any(_differs(value, here) for value in _values(call)):
        return True
    asked = {name for value in _values(call) for name in names_in(value)} & {*here.parameters}
    return any(
        target is here and name in asked and _differs(value, caller)
        for caller, made in (calls.callers.get(here, ()) if asked else ())
        for target, values in calls.arguments(made, caller)
        for name, value in values.items()
    )


def _seeded_by(call: ast.Call, calls: CallGraph, here: FunctionDefinition, own: Container[str]) -> Iterable[str]:
    """The global generators that ``call`` seeds: itself, or by what a library does when it is called."""
    name, full = call_name(call), calls.table.outside(call.func, here) or dotted(call.func)
    if not _values(call) or any(k.arg == "device_specific" and getattr(k.value, "value", 0) for k in call.keywords):
        return ()  # Accelerate's: another seed on every rank, for what is drawn in a step
    if name in source_names("seeds_all") and name not in own:
        return GENERATORS
    if name.endswith("Trainer") and _is_seeding_trainer(call, full, calls, here):
        return GENERATORS
    return [generator for generator in GENERATORS if full in source_names(f"seeds_{generator}")]


def _is_seeding_trainer(call: ast.Call, full: str, calls: CallGraph, here: FunctionDefinition) -> bool:
    """Trainers of these libraries, and classes made of them, seed all generators when they are made."""
    made, table = calls.made(call, here), calls.table
    lineage = table.lineage(made) if made is not None else ()
    bases = [table.outside(base, table.module_of(one)) for one in lineage for base in one.node.bases]
    return any(base.startswith(SEEDING_TRAINERS) and base.endswith("Trainer") for base in (full, *bases))


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]
