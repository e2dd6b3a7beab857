"""Places where a program splits or shuffles its data without a seed: every rank may get another split."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.facts.program import Program, Scope, call_name, dotted, own_nodes, parse_program
from unhang.facts.rank_values import RankValues, rank_values

_SEEDERS = {"manual_seed", "manual_seed_all", "set_seed", "seed_everything", "seed_all", "enable_full_determinism"}
_SEED_WORDS = {"generator", "seed", "random_state", "rng", "seeds"}
_SPLITTERS = {"random_split", "train_test_split", "randperm", "RandomSampler", "SubsetRandomSampler", "permutation"}
_SHUFFLERS = {"shuffle", "sample", "choices"}
_RANDOM_MODULES = ("random", "np.random", "numpy.random")


@dataclass(frozen=True, slots=True)
class UnseededSplit:
    """A call that gives other data on every rank. ``why`` is ``no-seed`` or ``seed-differs`` (seeded with the rank)."""

    line: int
    call: str
    why: str


def split_without_seed(source: SourceFile) -> tuple[UnseededSplit, ...]:
    """Splits and shuffles of ``source`` that have no seed common to all ranks, by line; empty without usable source.

    Supporting evidence only: a global seed in another file cannot be seen from here.
    """
    program = parse_program(source.text)
    if isinstance(program, str):
        return ()
    values = rank_values(program)
    seeded, differs = _global_seeds(program, values)
    found: list[UnseededSplit] = []
    for scope, outer in program.owners.items():
        scopes: Sequence[Scope] = (*outer, scope)
        for node in own_nodes(scope):
            if isinstance(node, ast.Call) and (call := _random_call(node)):
                why = _why(node, values, scopes, seeded=seeded, differs=differs)
                if why:
                    found.append(UnseededSplit(node.lineno, call, why))
    return tuple(sorted(set(found), key=lambda split: (split.line, split.call)))


def _global_seeds(program: Program, values: RankValues) -> tuple[bool, bool]:
    """(some global seed is set, some global seed depends on the rank)."""
    seeded = differs = False
    for scope, outer in program.owners.items():
        scopes: Sequence[Scope] = (*outer, scope)
        for node in own_nodes(scope):
            if not isinstance(node, ast.Call) or not _seeds_everything(node):
                continue
            seeded = True
            differs = differs or any(values.value_depends(argument, scopes) for argument in _values(node))
    return seeded, differs


def _seeds_everything(call: ast.Call) -> bool:
    if not _values(call):
        return False
    name = call_name(call)
    if name == "seed":
        return dotted(call.func).rpartition(".")[0] in _RANDOM_MODULES
    if name == "manual_seed":
        # `torch.Generator().manual_seed(0)` seeds that generator only.
        return dotted(call.func) in (
            "torch.manual_seed",
            "manual_seed",
            "torch.cuda.manual_seed",
            "torch.random.manual_seed",
        )
    return name in _SEEDERS


def _random_call(call: ast.Call) -> str:
    """The call's name when it draws at random, else an empty text."""
    name, full = call_name(call), dotted(call.func)
    if name in _SPLITTERS:
        return full
    if name in _SHUFFLERS:
        before = full.rpartition(".")[0]
        if name == "shuffle":
            return full if before else ""
        return full if before in _RANDOM_MODULES else ""
    if name == "DataLoader" and _is_true(call, "shuffle") and not _has(call, {"sampler", "batch_sampler"}):
        return full
    return ""


def _why(call: ast.Call, values: RankValues, scopes: Sequence[Scope], *, seeded: bool, differs: bool) -> str:
    given = [keyword.value for keyword in call.keywords if keyword.arg in _SEED_WORDS and not _is_none(keyword.value)]
    if given:
        return "seed-differs" if any(values.value_depends(value, scopes) for value in given) else ""
    if call_name(call) == "train_test_split" and any(
        k.arg == "shuffle" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords
    ):
        return ""
    if not seeded:
        return "no-seed"
    return "seed-differs" if differs else ""


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _has(call: ast.Call, names: set[str]) -> bool:
    return any(keyword.arg in names and not _is_none(keyword.value) for keyword in call.keywords)


def _is_true(call: ast.Call, name: str) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
