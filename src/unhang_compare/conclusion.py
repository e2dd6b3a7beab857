"""The one sentence of a comparison, and the few that carry it: who works longer, and who only waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.sentences import Text, say
from unhang_compare.comparison import GREW, RANKS, SAME, UNDECIDED, RankPair, StepPart
from unhang_compare.noise import ENOUGH_SAMPLES, FEW_SAMPLES, MIN_STEP_SHARE
from unhang_compare.rank_times import CARD, DEVICE, MAIN, OWN, WAITING

UNRECORDED = "code between recorded operations"
EXPLAINED_SHARE = 0.25
"""Of what a step grew: so much of it in one place is the reason to be named."""


@dataclass(frozen=True, slots=True)
class ConclusionInput:
    """What a conclusion is drawn from. ``absent``: ranks of the job of which there is nothing."""

    kind: str
    answer: str
    whole: RankPair | None
    grew: tuple[StepPart, ...]
    shrank: tuple[StepPart, ...]
    absent: tuple[int, ...]
    changes: int


def duration_text(value: float) -> str:
    """``23.7 ms``, ``1.24 s``, ``850 µs``."""
    size = abs(value)
    if size < 5e-7:
        return "0 s"
    if size >= 1:
        return f"{value:.3g} s" if size < 1000 else f"{value:,.0f} s"
    return f"{value * 1e3:.3g} ms" if size >= 1e-3 else f"{value * 1e6:.3g} µs"


def part_place_text(part: StepPart) -> str:
    """``write (train.py:7)``; what was called where no line is known."""
    if part.where is None:
        return part.called or part.inside or UNRECORDED
    file = part.where.file.replace("\\", "/").rpartition("/")[2]
    line = f":{part.where.line}" if part.where.line is not None else ""
    return f"{part.where.function} ({file}{line})"


def draw_conclusion(told: ConclusionInput) -> tuple[Text, tuple[Text, ...]]:
    """The sentence, and what it rests on."""
    if told.whole is None:
        return _without_steps(told), ()
    if told.answer == UNDECIDED and told.whole.mean.told:
        return say(
            "Steps take {after} on average instead of {before}, but the recording is too short "
            "to rule out noise: {enough} steps on each side would be enough",
            before=duration_text(told.whole.before.mean_s),
            after=duration_text(told.whole.after.mean_s),
            enough=_enough(told.whole),
        ), ()
    if told.answer == UNDECIDED:
        return say(
            "Steps take {after} instead of {before}, but there are too few samples ({few} "
            "before, {more} after) to rule out noise: {enough} steps on each side would be enough",
            before=duration_text(told.whole.before.median_s),
            after=duration_text(told.whole.after.median_s),
            few=told.whole.before.samples,
            more=told.whole.after.samples,
            enough=_enough(told.whole),
        ), ()
    if told.kind == RANKS:
        return _of_ranks(told)
    if told.answer == SAME:
        return _same(told), tuple(_moved(told))
    if told.answer == GREW:
        return _grew(told)
    change = _steps(told.whole)
    return say("Steps take {after} instead of {before}: they became faster", **change), ()


def _enough(whole: RankPair) -> int:
    """Steps on each side from which the answer is no longer that it cannot be told: so many samples as are not few, or
    fewer steps where none of one side is as long as any of the other."""
    if whole.apart:
        return ENOUGH_SAMPLES
    return FEW_SAMPLES * max(1, round(max(side.count / side.samples for side in (whole.before, whole.after))))


def _without_steps(told: ConclusionInput) -> Text:
    if told.changes:
        return say("Only the settings could be compared: {count} differ", count=told.changes)
    return say("Steps cannot be compared: at least one side has none that can be read")


def _steps(whole: RankPair) -> dict[str, str]:
    most = _most_steps(whole)
    return {
        "before": duration_text(whole.before.median_s if most else whole.before.mean_s),
        "after": duration_text(whole.after.median_s if most else whole.after.mean_s),
    }


def _most_steps(whole: RankPair) -> bool:
    """Whether most steps changed, and not only a few by much."""
    return whole.median.is_real(MIN_STEP_SHARE * whole.before.median_s)


def _same(told: ConclusionInput) -> Text:
    assert told.whole is not None
    return say(
        "No difference beyond noise: steps take {after}, before {before}",
        after=duration_text(told.whole.after.median_s),
        before=duration_text(told.whole.before.median_s),
    )


def _moved(told: ConclusionInput) -> Iterator[Text]:
    """Steps are as long as before, and something in them grew all the same."""
    for part in told.grew[:1]:
        if part.kind == OWN and part.on == MAIN:
            yield say(
                "{place} takes {more} more per step, and something else as much less",
                place=part_place_text(part),
                more=duration_text(part.difference.grew_s),
            )


def leading_part(told: ConclusionInput) -> StepPart | None:
    """What the growth is put down to: work of a rank's own before waiting, for whoever waits waits for somebody."""
    if told.whole is None:
        return None
    min_s = EXPLAINED_SHARE * max(told.whole.mean.grew_s, told.whole.median.grew_s)
    enough = [part for part in told.grew if part.difference.grew_s >= min_s]
    for kind in (OWN, DEVICE, WAITING):
        found = next((part for part in enough if part.kind == kind and part.on in (MAIN, CARD)), None)
        if found is not None:
            return found
    return None


def _grew(told: ConclusionInput) -> tuple[Text, tuple[Text, ...]]:
    assert told.whole is not None
    first, change = leading_part(told), _steps(told.whole)
    because = tuple(_because(told, first))
    if not _most_steps(told.whole):
        because = (
            say(
                "Most steps take as long as before; the longest now takes {longest}",
                longest=duration_text(told.whole.after.longest_s),
            ),
            *because,
        )
    if first is None and not told.grew:
        return say(
            "Steps take {after} instead of {before}; no single part grew beyond noise: compare longer spans",
            **change,
        ), because
    if first is None:
        return say("Steps take {after} instead of {before}, spread over many places", **change), because
    values = {
        **change,
        "place": part_place_text(first),
        "more": duration_text(first.difference.grew_s),
        "ranks": first.ranks,
    }
    if first.kind == WAITING:
        return say(
            "Steps take {after} instead of {before}: ranks wait {more} longer for other ranks in "
            "{place}, and no rank compared here works longer",
            **values,
        ), because
    if first.on == CARD:
        return say("Steps take {after} instead of {before}: the GPU works {more} longer for {place}", **values), because
    if first.kind == DEVICE:
        return say(
            "Steps take {after} instead of {before}: in {place} the CPU waits {more} longer for the GPU",
            **values,
        ), because
    if not first.ranks:
        return say("Steps take {after} instead of {before}: {more} more in {place}", **values), because
    return say(
        "Steps take {after} instead of {before}: {ranks:who} {ranks:spends|spend} {more} more in {place}", **values
    ), because


def _because(told: ConclusionInput, first: StepPart | None) -> Iterator[Text]:
    waits = [part for part in told.grew if part.kind == WAITING and part.on == MAIN]
    if first is not None and first.kind == OWN:
        if first.called and first.inside:
            yield say(
                "There it calls {called}; most of the growth is in {inside}", called=first.called, inside=first.inside
            )
        elif first.called and first.where is not None:
            yield say("There it calls {called}", called=first.called)
        for part in waits[:1]:
            others = tuple(rank for rank in part.ranks if rank not in first.ranks)
            if others and first.ranks:
                yield say(
                    "{others:who} {others:waits|wait} for {ranks:who}: {more} longer in {place}",
                    others=others,
                    ranks=first.ranks,
                    more=duration_text(part.difference.grew_s),
                    place=part_place_text(part),
                )
    elif first is not None and first.kind == WAITING:
        if told.absent:
            yield say("The reason is on a rank without data here: {ranks:who}", ranks=told.absent)
        else:
            yield say(
                "Every rank was compared, so the transport became slower (network, links, a crowded "
                "CPU), or more data is sent"
            )


def _of_ranks(told: ConclusionInput) -> tuple[Text, tuple[Text, ...]]:
    """Two sets of ranks: what each does more than the other."""
    own = [part for part in (*told.grew, *told.shrank) if part.kind == OWN and part.on in (MAIN, CARD)]
    first = max(own, key=lambda part: abs(part.difference.grew_s), default=None)
    if first is None:
        return say("No difference beyond noise between these ranks' own work"), ()
    summary = say(
        "{ranks:who} {ranks:spends|spend} {more} more per step in {place}",
        ranks=first.ranks,
        more=duration_text(abs(first.difference.grew_s)),
        place=part_place_text(first),
    )
    waits = [part for part in (*told.grew, *told.shrank) if part.kind == WAITING and part.ranks != first.ranks]
    because = [
        say(
            "Meanwhile {others:who} {others:waits|wait}: {more} more per step in {place}",
            others=part.ranks,
            more=duration_text(abs(part.difference.grew_s)),
            place=part_place_text(part),
        )
        for part in waits[:1]
    ]
    return summary, tuple(because)
