"""Risks that the program shows when it is run up to its first step: data, random states and parameters of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node, asked_of_several
from unhang.check.sameness.sameness import DryRun, LoaderStart, ModelParameters, RankStart, starts_of, values_by_ranks
from unhang.evidence.items import SourceFile
from unhang.findings import Evidence, Finding, Grade, Remedy, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.sentences import Text

ROWS = RiskRows("dry_run")
_Split = tuple[SourceFile, UnseededSplit]
_Having = Sequence[tuple[RankStart, LoaderStart]]


def same_start(here: NodeInspection) -> Iterator[Answer]:
    """How the dry run of this node ended."""
    run, launch = here.found(DryRun), here.found(Launch)
    if run is None:
        if launch is not None and launch.program:
            yield ROWS.could_not("same-start", ROWS.words("only-running-tells"), "unhang check --dry-run -- CMD")
        return
    early = tuple(start.rank for start in run.ranks if start.stage == "ended")
    last_words = tuple(Evidence(Source("output", number), line) for number, line in enumerate(run.last_words, 1))
    if run.ended == "steps":
        yield ROWS.fine("same-start", count=len(run.ranks))
    elif run.code not in (0, None):
        last = (Text("{line}", {"line": run.last_words[-1]}),) if run.last_words and run.last_words[-1] else ()
        yield ROWS.risk("ends-before-a-step", {"code": run.code}, because=last, evidence=last_words)
    elif early and len(early) < len(run.ranks):
        yield ROWS.risk("some-end-without-a-step", {"ranks": early}, ranks=early, evidence=last_words)
    else:
        because = run.because or ROWS.words("no-step-seen")
        yield ROWS.could_not("same-start", because, "unhang check --dry-run --dry-run-limit 1800 -- CMD")


def same_data(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Each data loader that was read on several ranks: who has fewer batches leaves the loop, the others wait."""
    starts = starts_of(situations)
    if not any(start.loaders for start in starts):
        return
    splits = [one for one in _splits(situations) if not one[1].call.endswith("DataLoader")]  # shuffled, not cut
    splits = [one for one in splits if one[1].splits] or splits
    for key in dict.fromkeys(_key(loader) for start in starts for loader in start.loaders):
        having = [(start, loader) for start in starts for loader in start.loaders if _key(loader) == key]
        if len(having) > 1:
            yield from _judge_loader(having, splits)


def _splits(situations: Sequence[NodeInspection]) -> Sequence[_Split]:
    program = next((found for s in situations if (found := s.found(ProgramSource)) is not None), None)
    return unseeded_splits(program.files if program is not None else ())


def _key(loader: LoaderStart) -> tuple[str, int, int]:
    return loader.file, loader.line, loader.nth


def _judge_loader(having: _Having, splits: Sequence[_Split]) -> Iterator[Answer]:
    first, loaders = having[0][1], [loader for _, loader in having]
    place = f"{first.file}:{first.line}"
    if any(loader.steps is None for loader in loaders):
        if first.read is not None:
            yield ROWS.could_not("same-data", ROWS.words("no-length"), place=place)
    elif len({loader.steps for loader in loaders}) > 1:
        yield _uneven(having, splits)
    elif first.cut_by_rank and len({loader.length for loader in loaders}) > 1:
        yield _other_data(having, splits, Severity.STOPS)
    elif first.cut_by_rank and len({loader.fingerprint for loader in loaders}) > 1:
        yield _other_data(having, splits, Severity.NOTE)
    else:
        yield ROWS.fine("same-data", steps=first.steps, place=place)


def _uneven(having: _Having, splits: Sequence[_Split]) -> Finding:
    first = having[0][1]
    steps = {start.rank: loader.steps or 0 for start, loader in having}
    least, most = min(steps.values()), max(steps.values())
    short = tuple(rank for rank, count in steps.items() if count == least)
    because = [ROWS.words("batches", counts=_by_ranks(having, lambda loader: loader.steps))]
    if len({loader.length for _, loader in having}) > 1:
        because.append(ROWS.words("examples", counts=_by_ranks(having, lambda loader: loader.length)))
    return ROWS.risk(
        "uneven-batches",
        {"ranks": short, "least": least, "most": most, "place": f"{first.file}:{first.line}"},
        grade=Grade.BASE_RATE if first.read is None else None,  # made, not read before the step
        ranks=short,
        where=_where(first, splits),
        because=(*because, *_why(having, splits)),
        evidence=_evidence(first, splits),
        remedies=_remedies(splits),
    )


def _other_data(having: _Having, splits: Sequence[_Split], severity: Severity) -> Finding:
    first = having[0][1]
    counts = _by_ranks(having, lambda loader: f"{loader.length} {loader.fingerprint[:8]}".strip())
    return ROWS.risk(
        "shares-of-other-data",
        {"place": f"{first.file}:{first.line}"},
        severity=severity,
        where=_where(first, splits),
        because=(ROWS.words("examples", counts=counts), *_why(having, splits)),
        evidence=_evidence(first, splits),
        remedies=_remedies(splits),
    )


def _by_ranks(having: _Having, value: Callable[[LoaderStart], object]) -> str:
    of = {start.rank: loader for start, loader in having}
    return values_by_ranks([start for start, _ in having], lambda start: value(of[start.rank]))


def _why(having: _Having, splits: Sequence[_Split]) -> Iterator[Text]:
    for source, split in splits:
        yield ROWS.words("no-common-seed", call=split.call, place=f"{source.path}:{split.line}")
    for name in dict.fromkeys(split.draws_from for _, split in splits):
        if name and len({start.random.get("data", {}).get(name, "") for start, _ in having}) > 1:
            yield ROWS.words("state-differs", generator=name)


def _where(loader: LoaderStart, splits: Sequence[_Split]) -> Where:
    file, line = (splits[0][0].path, splits[0][1].line) if splits else (loader.file, loader.line)
    return Where(file, line, "")


def _evidence(loader: LoaderStart, splits: Sequence[_Split]) -> tuple[Evidence, ...]:
    quoted = [
        Evidence(Source(source.path, split.line), source.text.splitlines()[split.line - 1].strip())
        for source, split in splits
    ]
    return (*quoted, Evidence(Source(loader.file, loader.line), f"DataLoader({loader.dataset}, {loader.sampler})"))


def _remedies(splits: Sequence[_Split]) -> tuple[Remedy, ...]:
    return (*((ROWS.remedy("seed-the-split"),) if splits else ()), ROWS.remedy("same-number-of-batches"))


def same_random(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """The states before the first step: a split drawn from one that differs, dropout from one that does not."""
    starts = starts_of(situations)
    if len(starts) < 2:
        return
    wrong = False
    for file, split in _splits(situations):
        if split.draws_from and _differs(starts, split.draws_from) and _even(starts):
            wrong = True
            values = {"call": split.call, "generator": split.draws_from, "place": f"{file.path}:{split.line}"}
            yield ROWS.risk("split-draws-otherwise", values)
    if starts[0].random.get("step", {}).get("torch") and not _differs(starts, "torch"):
        wrong = True
        yield ROWS.risk("dropout-draws-alike")
    if not wrong:
        yield ROWS.fine("same-random")


def _differs(starts: Sequence[RankStart], generator: str) -> bool:
    return len({start.random.get("step", start.random.get("data", {})).get(generator, "") for start in starts}) > 1


def _even(starts: Sequence[RankStart]) -> bool:
    """The loaders are of one length: otherwise that is said already."""
    return len({tuple(loader.steps for loader in start.loaders if loader.read is not None) for start in starts}) == 1


def same_parameters(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Ranks whose models differ in shape call collectives of other sizes."""
    held = {start.rank: start.parameters for start in starts_of(situations) if start.parameters is not None}
    starts = [start for start in starts_of(situations) if start.rank in held]
    if len(held) < 2:
        return
    first, *others = held.values()
    other = next((one for one in others if (one.count, one.shapes) != (first.count, first.shapes)), None)
    if any(one.kind == "sharded" for one in held.values()):
        yield ROWS.could_not("same-parameters", ROWS.words("own-part"))
    elif other is not None:
        counts = values_by_ranks(starts, lambda start: held[start.rank].count)
        because = (ROWS.words("parameters", counts=counts), *_first_difference(first, other, slice(0, 2)))
        yield ROWS.risk("other-shapes", because=because)
    elif (other := next((one for one in others if one.values != first.values), None)) is not None:
        values = values_by_ranks(starts, lambda start: held[start.rank].values)
        because = (ROWS.words("weights", values=values), *_first_difference(first, other, slice(0, 3)))
        yield ROWS.risk("other-weights", because=because)
    else:
        yield ROWS.fine("same-parameters", count=first.count)


def _first_difference(one: ModelParameters, other: ModelParameters, part: slice) -> tuple[Text, ...]:
    for mine, theirs in zip_longest(one.rows, other.rows):
        if mine is None or theirs is None or mine[part] != theirs[part]:
            left, right = (" ".join(row[part]) if row else "-" for row in (mine, theirs))
            return (ROWS.words("first-difference", one=left, other=right),)
    return ()


RISKS = (
    *asked_of_a_node("sameness", same_start),
    *asked_of_several("sameness", same_data, same_random, same_parameters),
)
