"""Risks in the source of the program: what data each rank gets, and what one rank does while the others wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from unhang.check.environment.environment import Cores, Timer, Timers
from unhang.check.risks.program.collectives import about, paths_of, place, quoted
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.evidence.items import SourceFile
from unhang.facts.laggard.main_process_first import is_main_first_name
from unhang.facts.logs.event_timing import is_preparation_function
from unhang.findings import Grade, Phase, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.collectives import source_names
from unhang.knowledge.job.job_paths import names_of_paths
from unhang.knowledge.remedies import store_wait_remedy
from unhang.program.launch.launch import Launch
from unhang.program.patterns.data_loaders import (
    LoaderInSource,
    gives_webdataset_a_length,
    loaders_in,
    loops_without_set_epoch,
)
from unhang.program.patterns.log_flushes import log_flushes
from unhang.program.patterns.single_rank_waits import WorkBeforeWait, unentered_contexts, work_before_waits
from unhang.program.patterns.single_rank_work import DATA, LOG, SAVE, SingleRankWork, single_rank_work
from unhang.program.patterns.unsorted_listings import unsorted_listings
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence.data_loading_code import dealt_by_rank, skipped_rows
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.program.settings.job_values import job_values
from unhang.program.syntax.definitions import SourceLine
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, dotted, own_nodes, parse_file
from unhang.sentences import Text, first_names

ROWS = RiskRows("program_work")
_OURS = "unhang"
MAX_NAMED = 3
SHORT_S = 600.0
"""A limit below torch's own for NCCL was chosen by somebody, and not for a tokenisation."""
_BASES = ("job.dump_folder", "dump_folder")


def program_listing(here: NodeInspection) -> Iterator[Answer]:
    """A file system promises no order: ranks hold another file, of another length, for the same index."""
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None or paths is None:
        return
    for one in unsorted_listings(paths):
        values = {"function": one.call.function, "call": one.call.text}
        because = (ROWS.words("becomes-data", call=one.used.text, place=place(one.used)),)
        yield ROWS.risk("listing", values, because=because, **about(program, one.call, one.used))


def program_skipped_rows(here: NodeInspection) -> Iterator[Answer]:
    """Broken rows are not spread evenly: the rank with the fewest batches leaves the loop first, and others wait."""
    program, ranks = here.found(ProgramSource) or ProgramSource(), (here.found(Launch) or Launch()).processes
    if any("even_batches(" in source.text for source in program.files):
        return
    for one in (found for source in program.files for found in skipped_rows(source)):
        at, dealt = (SourceLine(one.path, line, one.function, "") for line in (one.line, one.dealt_line))
        values = {"function": one.function, "dealt": one.dealt_line, "line": one.line}
        parts = {**about(program, at), "evidence": tuple(quoted(program, (dealt, at)))}
        yield ROWS.risk("skipped-rows", {**values, "ranks": ranks or "N"}, **parts)


def program_dealt_rows(here: NodeInspection) -> Iterator[Answer]:
    """A sampler that deals out what is left over: some ranks have a batch more, and wait in its collective."""
    program = here.found(ProgramSource) or ProgramSource()
    for one in (found for source in program.files for found in dealt_by_rank(source)):
        at = SourceLine(one.path, one.line, one.name, one.text)
        yield ROWS.risk("dealt-by-rank", {"name": one.name, "text": one.text}, **about(program, at))


def program_split(here: NodeInspection) -> Iterator[Answer]:
    """Every rank draws its own split: the ranks run a different number of steps, and some wait in a collective.

    A shuffle alone changes the order, not the number of steps, and is a note.
    """
    program, paths = here.found(ProgramSource), paths_of(here)
    if program is None:
        return
    calls, reached = (None, None) if paths is None else (paths.flow.calls, paths.launch)
    drawn = unseeded_splits(program.files, calls, program.entered, reached)
    found = [(source, split) for source, split in drawn if not split.one_of]  # whether it is chosen: listed below
    for source, split in found:
        values = {"call": split.call, "code": split.with_seed, **split.edit}
        parts = {
            **about(program, SourceLine(source.path, split.line, "", split.call), split.late),
            "grade": None if split.splits and split.settled else Grade.BASE_RATE,
            "severity": Severity.STOPS if split.splits else Severity.NOTE,
            "because": tuple(_why_unseeded(split)),
        }
        if split.why == "hash-order":
            yield ROWS.risk("hash-order", values, **parts)
        elif split.why == "no-seed":
            yield ROWS.risk("no-seed", values, **parts)
        else:
            yield ROWS.risk("seeded-with-rank" if split.settled else "seeded-elsewhere", values, **parts)
    known = {(source.path, split.line) for source, split in found}
    may_run = None if paths is None else {*paths.launch, *(one for one in paths.flow.calls.defined if one.owner)}
    strictly = unseeded_splits(program.files, calls, program.entered, may_run, strict=True)
    left = [(file.path, one) for file, one in strictly if one.splits and (file.path, one.line) not in known]
    if left:
        splits = first_names([f"{one.call} ({path}:{one.line})" for path, one in left], MAX_NAMED)
        yield ROWS.could_not("split", ROWS.words("seed-unseen"), "", splits=splits)
    elif not found:
        yield ROWS.fine("splits")


def _why_unseeded(split: UnseededSplit) -> Iterator[Text]:
    if split.late is not None:
        yield ROWS.words("seeded-later", call=split.call, seed=split.late.text, place=place(split.late))
    elif split.why == "no-seed" and split.draws_from and split.seeded:
        seeded = ", ".join(split.seeded)
        yield ROWS.words("other-generator", call=split.call, drawn=split.draws_from, seeded=seeded)


def program_single_rank(here: NodeInspection) -> Iterator[Answer]:
    """Work of one rank while the others wait in a collective: the limit of that collective counts for it too."""
    program, timers, paths = here.found(ProgramSource), here.found(Timers), paths_of(here)
    if program is None or timers is None:
        return
    first_limits = timers.of("collective", "first steps")
    if first_limits:
        yield from _main_process_first(program, first_limits[0])
    for lost in unentered_contexts(paths) if paths is not None else ():
        values = {"function": lost.call.function, "call": lost.call.text}
        values |= {"what": lost.waits.text, "place": place(lost.waits)}
        yield ROWS.risk("not-entered", values, **about(program, lost.call, lost.waits))
    before = list(work_before_waits(paths)) if paths is not None and first_limits else []
    if before:
        yield _before_wait(program, before, first_limits[0])
    limits, works = timers.of("collective", "later steps"), single_rank_work(paths)
    for kind in (DATA, LOG, SAVE) if limits else ():
        alike = sorted((one for one in works if one.kind == kind), key=lambda one: one.work.path != one.branch_path)
        if alike:
            yield _in_loop(here, program, alike, limits[0])


def _main_process_first(program: ProgramSource, limit: Timer) -> Iterator[Answer]:
    """About the last such place: the work of the earlier ones is mostly short (downloads, loading)."""
    found = [one for source in program.files for one in _main_process_first_blocks(source)]
    if found:
        name, at = found[-1]
        yield ROWS.risk(
            "main-process-first",
            {"work": at.text, "seconds": limit.seconds},
            severity=_severity(limit),
            because=tuple(_limit(limit, len(found) - 1)),
            remedies=(store_wait_remedy(name, Where(at.path, at.line, at.function)),),
            **_with_limit(program, limit, at),
        )


def _main_process_first_blocks(source: SourceFile) -> Iterator[tuple[str, SourceLine]]:
    """``with NAME():`` around a call that prepares data; not our own guard, which waits on the store."""
    program = parse_file(source.text) if "_first" in source.text else ""
    if isinstance(program, str):
        return
    for scope in program.owners:
        blocks = [node for node in own_nodes(scope) if isinstance(node, ast.With)]
        for node in sorted(blocks, key=lambda block: block.lineno):
            if (found := _block_of(node, program)) is not None:
                name, work = found
                yield name, SourceLine(source.path, node.lineno, getattr(scope, "name", "<module>"), work)


def _block_of(node: ast.With, program: ParsedFile) -> tuple[str, str] | None:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    name = next(
        (call_name(call) for call in calls if is_main_first_name(call_name(call)) and not _is_ours(call, program)), ""
    )
    inside = [inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Call)]
    work = next((call_name(call) for call in inside if is_preparation_function(call_name(call))), "")
    return (name, work) if name and work else None


def _is_ours(call: ast.Call, program: ParsedFile) -> bool:
    if dotted(call.func).startswith(f"{_OURS}."):
        return True
    imported = (node for node in ast.walk(program.tree) if isinstance(node, ast.ImportFrom))
    return any(
        (node.module or "").split(".")[0] == _OURS
        and call_name(call) in {alias.asname or alias.name for alias in node.names}
        for node in imported
    )


def _before_wait(program: ProgramSource, works: Sequence[WorkBeforeWait], limit: Timer) -> Answer:
    one = works[0]
    values = {"work": one.work.text, "function": one.branch.function, "call": one.waits.text}
    values |= {"place": place(one.waits)}
    parted = ROWS.words("parted", place=place(one.branch), test=one.branch.text)
    return ROWS.risk(
        "before-wait",
        {**values, "seconds": limit.seconds},
        severity=_severity(limit),
        because=(parted, *_limit(limit, len(works) - 1)),
        **_with_limit(program, limit, one.branch, *one.chain, one.work, one.waits),
    )


def _in_loop(here: NodeInspection, program: ProgramSource, works: Sequence[SingleRankWork], limit: Timer) -> Answer:
    one = works[0]
    values = {"function": one.work.function, "call": one.work.text, "place": place(one.waits), "seconds": limit.seconds}
    because = [
        ROWS.words("parted", place=f"{one.branch_path}:{one.branch.line}", test=one.branch.test),
        ROWS.words("in-loop", place=place(one.loop)),
    ]
    if one.kind == LOG:
        logs = tuple(name for name, _ in names_of_paths("argument", "logs"))
        folder = next(job_values(here, *logs, *_BASES), None)
        because += [ROWS.words("log-folder", folder=folder.value)] if folder is not None else []
    parts = {"because": (*because, *_limit(limit, len(works) - 1)), **_with_limit(program, limit, one.work, one.waits)}
    if one.kind == DATA:
        grade = None if one.branch.sure else Grade.BASE_RATE
        return ROWS.risk("evaluates-alone", values, grade=grade, phase=Phase.EVAL, **parts)
    if one.kind == LOG:
        return ROWS.risk("logs-alone", values, phase=Phase.LOG, **parts)
    return ROWS.risk("saves-alone", values, phase=Phase.SAVE, **parts)


def _severity(limit: Timer) -> Severity:
    return Severity.SLOWS if limit.seconds < SHORT_S else Severity.NOTE


def _limit(limit: Timer, others: int) -> Iterator[Text]:
    yield ROWS.words("limit-in-force", name=limit.name)
    if others:
        yield ROWS.words("more-places", count=others)


def _with_limit(program: ProgramSource, limit: Timer, *lines: SourceLine) -> dict[str, Any]:
    parts = about(program, *lines)
    return parts if limit.evidence is None else {**parts, "evidence": (*parts["evidence"], limit.evidence)}


def program_loader(here: NodeInspection) -> Iterator[Answer]:
    """A loader that waits for ever for a dead worker, starves the cores, cannot be made, or deals out uneven shards."""
    program = here.found(ProgramSource) or ProgramSource()
    for source in program.files:
        for loader in loaders_in(source):
            parts = about(program, SourceLine(loader.path, loader.line, "", loader.kind))
            if loader.kind != "WebDataset":
                yield from _data_loader(here, loader, parts)
            elif not loader.arguments.get("resampled") and not gives_webdataset_a_length(source):
                yield ROWS.risk("uneven-shards", **parts)
    unread = program.partly or program.absent or program.unreadable or program.computed
    if unread or any(one in file.text for one in source_names("sets_epoch") for file in program.whole):
        return
    for one in (found for source in program.files for found in loops_without_set_epoch(source)):
        at, made = (SourceLine(one.path, line, "", one.sampler) for line in (one.line, one.made_line))
        values = {"sampler": one.sampler, "epoch": one.epoch, "path": one.path, "line": one.body_line}
        yield ROWS.risk("no-set-epoch", values, **about(program, at, made))


def _data_loader(here: NodeInspection, loader: LoaderInSource, parts: dict[str, Any]) -> Iterator[Answer]:
    workers = loader.arguments.get("num_workers", 0 if "num_workers" not in loader.names else None)
    if loader.arguments.get("persistent_workers") is True and workers == 0:
        yield ROWS.risk("no-workers", **parts)
    if not isinstance(workers, int) or workers <= 0:
        return
    if not loader.arguments.get("timeout") and "timeout" not in loader.names:
        yield ROWS.risk("no-timeout", **parts)
    cores, processes = here.found(Cores), (here.found(Launch) or Launch()).processes
    if cores is not None and processes and workers * processes > 2 * cores.count:
        values = {"workers": workers, "processes": processes, "all": workers * processes, "cores": cores.count}
        yield ROWS.risk("many-workers", {**values, "fits": max(1, cores.count // processes)}, **parts)


def program_log_flush(here: NodeInspection) -> Iterator[Answer]:
    """``writer.flush()`` in the loop: where the storage writes the whole file again, every step takes longer."""
    program = here.found(ProgramSource) or ProgramSource()
    for one in log_flushes(program.files):
        parts = about(program, SourceLine(one.path, one.line, one.function, one.writer))
        yield ROWS.risk("log-flush", {"writer": one.writer, "made": one.made}, phase=Phase.LOG, **parts)


RISKS = asked_of_a_node(
    "program",
    program_listing,
    program_skipped_rows,
    program_dealt_rows,
    program_split,
    program_single_rank,
    program_loader,
    program_log_flush,
)
