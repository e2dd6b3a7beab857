"""Risks in the source of the program: collectives and groups that not every rank meets, or not in the same order."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from unhang.check.network.network import nodes_of
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Evidence, Grade, Remedy, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.collectives import collectives_by_name
from unhang.program.data_flow.function_steps import CHANCE, DATA, ERRORS, FILES, LOCAL, NAMED, RANK, TIME
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.paths.divergent_paths import PathDivergence, ProgramPaths
from unhang.program.paths.whole_program import find_program_paths
from unhang.program.patterns.blocking_cleanup import blocking_cleanups
from unhang.program.patterns.group_creation import per_rank_groups
from unhang.program.patterns.set_iteration import loops_in_set_order
from unhang.program.patterns.uneven_loops import uneven_loops, unsynced_generations
from unhang.program.program_source import ProgramSource
from unhang.program.settings.job_values import job_value
from unhang.program.syntax.definitions import SourceLine
from unhang.sentences import Text

ROWS = RiskRows("program_collectives")
OF_DEEPSPEED = frozenset({"zero", "ds", "deepspeed"})


def paths_of(here: NodeInspection) -> ProgramPaths | None:
    """Paths of the planned program; None where its source was not found, or nothing in it speaks of ranks."""
    program = here.found(ProgramSource)
    if program is None:
        return None
    return find_program_paths(program.files, program.entered, sharded=_spreads_model(here))


def _spreads_model(here: NodeInspection) -> bool:
    """Whether command or configuration spread the parameters of the model over ranks."""
    launch, files = here.found(Launch) or Launch(), (here.found(Configuration) or Configuration()).files
    kinds = {str(file.get("distributed_type", "")).upper() for file in files}
    by_command = bool({"fsdp", "deepspeed"} & launch.arguments.keys()) or launch.launcher == "deepspeed"
    return by_command or bool(kinds & {"FSDP", "DEEPSPEED"}) or any(file.kind == "deepspeed" for file in files)


def place(at: SourceLine) -> str:
    """``file:line``."""
    return f"{at.path}:{at.line}"


def about(program: ProgramSource, at: SourceLine, *others: SourceLine | None) -> dict[str, Any]:
    """Parts of a finding about a line of the program; the ``others`` are quoted too."""
    quotes = tuple(quoted(program, (at, *others)))
    return {"subject": place(at), "where": Where(at.path, at.line, at.function), "evidence": quotes}


def quoted(program: ProgramSource, places: Iterable[SourceLine | None]) -> Iterator[Evidence]:
    """The lines at these places, each once."""
    texts = {file.path: file.text for file in program.files}
    for path, line in dict.fromkeys((at.path, at.line) for at in places if at is not None):
        lines = texts.get(path, "").splitlines()
        if line <= len(lines):
            yield Evidence(Source(path, line), lines[line - 1].strip())


def program_lonely_call(here: NodeInspection) -> Iterator[Answer]:
    """A collective in ``if rank == 0:``, behind an early return, or behind any test that ranks answer differently.

    The call may stand several functions further down. The ranks that reach it wait for ranks that never come.
    """
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None:
        return
    for one in paths.partings if paths is not None else ():
        first = one.chain[0] if one.chain else one.call
        values = {"call": one.call.text, "test": one.branch.text, "line": one.branch.line}
        parts = {
            **about(program, one.branch, *one.chain, one.call, one.others),
            "where": Where(first.path, first.line, first.function),
            "grade": None if one.sure else Grade.BASE_RATE,
            "severity": Severity.NOTE if one.doubtful else None,
            "because": tuple(_why_lonely(one)),
            "remedies": (_bring_all(one),),
        }
        if one.kind in ("if", "else"):
            yield ROWS.risk("some-reach", values, **parts)
        elif one.kind == "except":
            yield ROWS.risk("error-skips", values, **parts)
        else:
            yield ROWS.risk("other-rounds" if one.kind == "loop" else "some-leave", values, **parts)
    if paths is not None and paths.partly:
        yield ROWS.could_not("same-collectives", ROWS.words("too-large"))
    elif paths is None or not paths.partings:
        yield ROWS.fine("same-collectives", count=len(program.files))


def _why_lonely(one: PathDivergence) -> Iterator[Text]:
    values = {"call": one.call.text, "test": one.branch.text}
    named = "sharded-call" if _needs_sharding(one) else "buffers" if one.doubtful else "waits-for-all"
    yield ROWS.words(named, **values)
    if DATA in one.why:
        yield ROWS.words("own-data", **values)
    if ERRORS in one.why:
        yield ROWS.words("own-error")
    if CHANCE in one.why:
        yield ROWS.words("own-chance", **values)
    if TIME in one.why:
        yield ROWS.words("own-clock", **values)
    if FILES in one.why:
        yield ROWS.words("others-file", **values)
    if one.chain:
        yield ROWS.words("way-from-test", way=_way([*one.chain, one.call], one.call.text))
    if one.others is not None:
        yield ROWS.words("others-go-on", call=one.others.text, place=place(one.others))
    if one.launch:
        yield ROWS.words("way-from-launch", way=_way(one.launch, one.branch.function))


def _way(chain: Sequence[SourceLine], end: str) -> str:
    """Each function that is called, and where; the last is ``end``."""
    called = (*(at.function for at in chain[1:]), end)
    return " → ".join(f"{name} ({place(at)})" for name, at in zip(called, chain, strict=True))


def _bring_all(one: PathDivergence) -> Remedy:
    values = {"call": one.call.text, "test": one.branch.text, "line": one.branch.line}
    if ERRORS in one.why:
        return ROWS.remedy("end-on-error")
    if {DATA, TIME, FILES, CHANCE} & set(one.why):
        return ROWS.remedy("agree-first", values)
    return ROWS.remedy("gather-everywhere" if _needs_sharding(one) else "call-everywhere", values)


def _needs_sharding(one: PathDivergence) -> bool:
    """Whether the call is a collective only where parameters are sharded."""
    rows = collectives_by_name().get(one.call.text.rpartition(".")[2], ())
    return bool(rows) and all(row.needs == "sharded" for row in rows)


def program_rank_given(here: NodeInspection) -> Iterator[Answer]:
    """``init_process_group(rank=local_rank)`` on several nodes: some ranks are claimed twice, the others never come."""
    program, nodes = here.found(ProgramSource), nodes_of(here)
    paths = paths_of(here) if nodes is not None and nodes > 1 else None
    if program is None or paths is None:
        return
    for one, read in paths.flow.reads.items():
        for call, given, kinds in read.ranks_given:
            if LOCAL in kinds and not kinds & {RANK, NAMED}:
                at = one.at(call.lineno, ast.unparse(given))
                value = SourceLine(at.path, given.lineno, at.function, at.text)
                yield ROWS.risk("rank-given", {"value": at.text, "nodes": nodes}, **about(program, at, value))


def program_set_order(here: NodeInspection) -> Iterator[Answer]:
    """The order of a set follows hashes or addresses: ranks call collectives in another order, or add other tensors."""
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None:
        return
    for one in loops_in_set_order(paths):
        values = {"call": one.call.text, "members": one.loop.text}
        because = [ROWS.words("holds-a-set", **values)]
        if one.given:
            way = " ← ".join(f"{at.text} ({place(at)})" for at in one.given)
            because.append(ROWS.words("handed-over", way=way))
        if one.chain:
            because.append(ROWS.words("way-from-loop", way=_way([*one.chain, one.call], one.call.text)))
        parts = about(program, one.loop, *one.given, *one.chain, one.call)
        yield ROWS.risk("set-order", values, because=tuple(because), **parts)


def program_uneven_loop(here: NodeInspection) -> Iterator[Answer]:
    """Each round over a rank's own data holds a collective, and nobody made the data equally long.

    The first rank to run out goes on to the next collective; the others wait in that of their next round.
    """
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None:
        return
    for one in uneven_loops(paths):
        values = {"call": one.call.text, "data": one.loop.text, "function": one.loop.function}
        because = [ROWS.words("waits-for-all", **values), ROWS.words("iterable-data", place=place(one.data))]
        if one.others is not None:
            inner = {"inner": one.call.text, "there": place(one.call)}
            because.append(ROWS.words("runs-out", call=one.others.text, place=place(one.others), **inner))
        parts = about(program, one.loop, one.data, one.call, one.others)
        yield ROWS.risk("uneven-loop", values, because=tuple(because), **parts)


def program_generation(here: NodeInspection) -> Iterator[Answer]:
    """Each token gathers the parameters from all ranks: one whose answers are finished leaves, and the others wait."""
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None or not _generates_sharded(here, program):
        return
    for one in unsynced_generations(paths):
        because = (ROWS.words("spread-parameters"), ROWS.words("synced-by-itself"))
        yield ROWS.risk("generation", {"call": one.text}, because=because, **about(program, one))


def _generates_sharded(here: NodeInspection, program: ProgramSource) -> bool:
    """DeepSpeed spreads the parameters only in stage 3; what else spreads a model always does."""
    stages = set(_stages(here))
    return 3 in stages if stages else not any("deepspeed" in file.text for file in program.files)


def _stages(here: NodeInspection) -> Iterator[int]:
    """What configuration and command say of DeepSpeed's stage; every project names its argument in its own way."""
    stage = job_value(here, "zero_optimization.stage", "deepspeed_config.zero_stage")
    if stage is not None and stage.whole is not None:
        yield stage.whole
    for name, value in (here.found(Launch) or Launch()).arguments.items():
        words = name.replace("-", "_").split("_")
        if words[-1] == "stage" and OF_DEEPSPEED.intersection(words) and str(value).isdecimal():
            yield int(value)


def program_group_made(here: NodeInspection) -> Iterator[Answer]:
    """Groups are told apart by how many were made before: who made others, or none, waits under a wrong name."""
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None:
        return
    for one in per_rank_groups(paths.flow.reads):
        at = one.call.at
        test = SourceLine(at.path, one.line, at.function, one.test) if one.test else None
        values = {"call": at.text, "test": one.test, "line": one.line, "ranks": one.ranks}
        parts = {**about(program, at), "evidence": tuple(quoted(program, (test, at)))}
        yield ROWS.risk("group-of-members" if one.test else "group-of-own-ranks", values, **parts)


def program_left_out(here: NodeInspection) -> Iterator[Answer]:
    """A part of the model is used only where this rank's batch has something for it: an image, a positive mask.

    DistributedDataParallel waits for the gradients of every parameter; FSDP and ZeRO-3 gather those of each module.
    """
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None:
        return
    for one in paths.left_out:
        parts = about(program, one.branch, *one.chain, one.call)
        yield ROWS.risk(
            "left-out",
            {"part": one.call.text, "test": one.branch.text},
            because=(ROWS.words("gradients-awaited"), ROWS.words("part-called", place=place(one.call))),
            **{**parts, "subject": f"{place(one.branch)}:{one.call.text}"},
        )


def program_clean_up(here: NodeInspection) -> Iterator[Answer]:
    """``destroy_process_group`` first finishes what is under way, which the others never join after an exception.

    The process does not end, and its launcher never learns of the failure. The first place stands for all.
    """
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None:
        return
    for one in islice(blocking_cleanups(paths), 1):
        at_exit = one.how == "atexit"
        yield ROWS.risk("clean-up-at-exit" if at_exit else "clean-up", {"call": one.call}, **about(program, one.at))


RISKS = asked_of_a_node(
    "program",
    program_lonely_call,
    program_rank_given,
    program_set_order,
    program_uneven_loop,
    program_generation,
    program_group_made,
    program_left_out,
    program_clean_up,
)
