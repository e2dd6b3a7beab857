"""Ranks would run a different number of steps.

What happens: run up to its first step, the program gives its ranks data loaders of different length, or data sets that
are not the same where each takes its share of one.

Why it hangs: the rank with fewer batches leaves the loop and goes on to the next collective (evaluation, the save at
the end, the last barrier); the others wait in the gradients of a step it never makes.

Example: ``train_test_split`` without a seed, then a filter on the length: 184 batches on rank 1, 228 on rank 0.

Fix: the same seed for the split on every rank, and a sampler that gives all ranks the same number of batches.

Certain when: never; the loop may stop earlier (``max_steps``), or join uneven ranks.

Possible when: the number of batches is the same although the data sets are not, or nobody read the loader yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK
from unhang.check.sameness.sameness import LoaderStart, RankStart, starts_of, values_by_ranks
from unhang.evidence.items import SourceFile
from unhang.findings import (
    Cause,
    Certainty,
    Evidence,
    Finding,
    NotChecked,
    PassedCheck,
    Remedy,
    RemedyKind,
    Severity,
    Source,
    Where,
)
from unhang.host.inspection_result import NodeInspection
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.sentences import Text, say

Split = tuple[SourceFile, UnseededSplit]
_Key = tuple[str, int, int]


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """One answer for each data loader that was read on several ranks."""
    starts = starts_of(situations)
    program = next((found for s in situations if (found := s.found(ProgramSource)) is not None), None)
    splits = [
        (file, split)
        for file, split in unseeded_splits(program.files if program else ())
        if not split.call.endswith("DataLoader")  # shuffled, not cut
    ]
    for key in dict.fromkeys(_key(loader) for start in starts for loader in start.loaders):
        having = [(start, loader) for start in starts for loader in start.loaders if _key(loader) == key]
        if len(having) > 1:
            yield from _judge(having, splits)


def _key(loader: LoaderStart) -> _Key:
    return loader.file, loader.line, loader.nth


def _judge(having: Sequence[tuple[RankStart, LoaderStart]], splits: Sequence[Split]) -> Iterator[Answer]:
    first = having[0][1]
    of = {start.rank: loader for start, loader in having}
    place = f"{first.file}:{first.line}"
    if any(loader.steps is None for loader in of.values()):
        if first.read is not None:
            what = say("How many batches the data loader of {place} gives each rank", place=place)
            yield NotChecked(what, say("its data set has no length"), check=CHECK)
        return
    if len({loader.steps for loader in of.values()}) > 1:
        yield _uneven(having, splits)
    elif first.cut_by_rank and len({loader.length for loader in of.values()}) > 1:
        yield _other_data(having, splits, Severity.STOPS)
    elif first.cut_by_rank and len({loader.fingerprint for loader in of.values()}) > 1:
        yield _other_data(having, splits, Severity.NOTE)
    else:
        yield PassedCheck(CHECK, say("{steps} batches on every rank ({place})", steps=first.steps, place=place))


def _uneven(having: Sequence[tuple[RankStart, LoaderStart]], splits: Sequence[Split]) -> Finding:
    of = {start.rank: loader for start, loader in having}
    starts, first = [start for start, _ in having], having[0][1]
    steps = {rank: loader.steps or 0 for rank, loader in of.items()}
    least, most = min(steps.values()), max(steps.values())
    short = tuple(rank for rank, count in steps.items() if count == least)
    because = [say("batches: {counts}", counts=values_by_ranks(starts, lambda start: of[start.rank].steps))]
    if len({loader.length for loader in of.values()}) > 1:
        counts = values_by_ranks(starts, lambda start: of[start.rank].length)
        because.append(say("examples in the data set: {counts}", counts=counts))
    summary = say(
        "{ranks:who} would run out of data after {least} steps, others have {most}", ranks=short, least=least, most=most
    )
    return risk(
        CHECK,
        f"{first.file}:{first.line}",
        Cause.UNEVEN_DATA,
        summary,
        certainty=Certainty.POSSIBLE if first.read is None else Certainty.LIKELY,  # made, not read before the step
        ranks=short,
        where=_where(first, splits),
        because=(*because, *_why(starts, splits)),
        evidence=_evidence(first, splits),
        remedies=tuple(_remedies(splits)),
    )


def _other_data(
    having: Sequence[tuple[RankStart, LoaderStart]], splits: Sequence[Split], severity: Severity
) -> Finding:
    of = {start.rank: loader for start, loader in having}
    starts, first = [start for start, _ in having], having[0][1]
    counts = values_by_ranks(starts, lambda start: f"{of[start.rank].length} {of[start.rank].fingerprint[:8]}".strip())
    return risk(
        CHECK,
        f"{first.file}:{first.line}",
        Cause.UNEVEN_DATA,
        say("Ranks take their shares from different data sets: some examples come twice, others never"),
        severity=severity,
        certainty=Certainty.POSSIBLE,
        where=_where(first, splits),
        because=(say("examples in the data set: {counts}", counts=counts), *_why(starts, splits)),
        evidence=_evidence(first, splits),
        remedies=tuple(_remedies(splits)),
    )


def _why(starts: Sequence[RankStart], splits: Sequence[Split]) -> Iterator[Text]:
    for source, split in splits:
        yield say("{call} ({place}) draws without a common seed", call=split.call, place=f"{source.path}:{split.line}")
    for name in dict.fromkeys(split.draws_from for _, split in splits):
        if name and len({start.random.get("data", {}).get(name, "") for start in starts}) > 1:
            yield say("the random state of {generator} differs between ranks", generator=name)


def _where(loader: LoaderStart, splits: Sequence[Split]) -> Where:
    if splits:
        return Where(splits[0][0].path, splits[0][1].line, "")
    return Where(loader.file, loader.line, "")


def _evidence(loader: LoaderStart, splits: Sequence[Split]) -> tuple[Evidence, ...]:
    quoted = [
        Evidence(Source(source.path, split.line), source.text.splitlines()[split.line - 1].strip())
        for source, split in splits
    ]
    return (*quoted, Evidence(Source(loader.file, loader.line), f"DataLoader({loader.dataset}, {loader.sampler})"))


def _remedies(splits: Sequence[Split]) -> Iterator[Remedy]:
    verify = say("unhang check --dry-run -- CMD")
    if splits:
        title = say("Seed the split, the same on every rank")
        change = say("seed=42, random_state=42 or generator=torch.Generator().manual_seed(42) in the call")
        yield Remedy(title, RemedyKind.CODE, change, say("none"), verify)
    title = say("Give every rank the same number of batches")
    change = say("DistributedSampler(dataset, drop_last=True) on the same data set, filtered before it is cut")
    yield Remedy(title, RemedyKind.CODE, change, say("at most one batch a rank and epoch"), verify)
