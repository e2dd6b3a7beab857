"""What the terminal and the page both say of a run. Pure: a state in, lines of text out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from unhang.report.first_lines import known_cause
from unhang.report.labels import STATUS, ranks_label, told_label
from unhang.report.layout.claims import HEADLINE, split_claim
from unhang.report.layout.durations import duration
from unhang.report.localizer import Localizer
from unhang.report.printable import capitalized
from unhang.report.text_serialization import text_from_json
from unhang.sentences import say
from unhang.view.reading import ENDED_SOMEHOW, RunReading
from unhang.wire.documents.live_state import STATES, GroupColumns, LiveState
from unhang.wire.record_views import PHASES

CALM, WAITING, STALLED, OVER = "calm", "waiting", "stalled", "over"
HURRY_S = 120.0


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether it moves. ``tone``: ``calm``, ``waiting``, ``stalled``, ``over``; ``left``: until the wait's limit."""

    tone: str
    text: str
    left: str = ""
    hurry: bool = False


@dataclass(frozen=True, slots=True)
class VerdictHead:
    """As the head of a report has it: the status and its word, one claim, what else is said, what is known of it."""

    status: str
    word: str
    claim: str
    rest: str
    about: str


def run_facts(state: LiveState, localizer: Localizer) -> list[str]:
    """How large it is, how long it runs, how far it is."""
    time = duration(state.at_s - state.run.started_s)
    found = [
        localizer.say(say("{count} ranks", count=state.run.world_size or len(state.ranks.rank))),
        localizer.say(say("nodes: {count}", count=max(1, len(state.run.nodes)))),
        localizer.say(say("ran for {time}", time=time) if state.ended else say("running for {time}", time=time)),
    ]
    if state.totals.steps:
        found.append(localizer.say(say("step {step}", step=f"{state.totals.steps:,}")))
    if state.totals.step_s:
        found.append(localizer.say(say("{seconds} per step", seconds=seconds_text(state.totals.step_s))))
    return found


def condition(state: LiveState, reading: RunReading, localizer: Localizer) -> Condition:
    """Who waits for whom, and how long is left."""
    if reading.because is not None:
        return Condition(OVER, missing_state_reason(reading, localizer))
    if not reading.live:
        told = [_carried(parts, english, localizer) for english, parts in reading.ended]
        return Condition(OVER, ("" if localizer.lang == "zh" else " ").join(told) or localizer.say(ENDED_SOMEHOW))
    standing = state.standing
    if standing is None or standing.waited_s < 1:
        return _nobody_waits(state, localizer)
    stalled = state.verdict is not None and state.verdict.status == "hang"
    if standing.laggards:
        text = say(
            "{waiters:who} {waiters:has|have} waited {time} for {laggards:who}",
            waiters=tuple(sorted(standing.waiters)),
            laggards=tuple(standing.laggards),
            time=duration(standing.waited_s),
        )
    else:
        text = say("all ranks have waited {time}", time=duration(standing.waited_s))
    tone, line, left_s = STALLED if stalled else WAITING, localizer.line(localizer.say(text), 140), standing.killed_in_s
    if left_s is None:
        return Condition(tone, line)
    left = localizer.say(say("the wait times out in {time}", time=duration(left_s)))
    return Condition(tone, line, left, left_s < HURRY_S)


def _nobody_waits(state: LiveState, localizer: Localizer) -> Condition:
    doing = [STATES[number] for number in state.ranks.state]
    dead = tuple(rank for rank, word in zip(state.ranks.rank, doing, strict=True) if word == "dead")
    if dead:
        return Condition(STALLED, localizer.line(localizer.say(say("{ranks:who} failed", ranks=dead)), 140))
    if not doing:
        return Condition(CALM, localizer.say(say("starting")))
    if set(doing) == {"over"}:
        return Condition(OVER, localizer.say(say("all ranks are done; the command is still running")))
    return Condition(CALM, localizer.say(say("progressing")))


def missing_state_reason(reading: RunReading, localizer: Localizer) -> str:
    """Why there is no state, or no new one; empty where there is."""
    return localizer.line(localizer.say(reading.because)) if reading.because is not None else ""


def headline(state: LiveState, localizer: Localizer, *, live: bool) -> VerdictHead | None:
    """None before there is a verdict, and of a stall in which nobody waits any more."""
    told = state.verdict
    if told is None or (live and told.status == "hang" and state.standing is None):
        return None
    ranks = [localizer.say(ranks_label(tuple(told.ranks)))] if told.ranks else []
    about = [*known_cause(told.cause, told.certainty, localizer), *ranks, *([told.where] if told.where else [])]
    word = localizer.line(localizer.say(told_label(told.status, STATUS)))
    claim, rest = split_claim(_carried(told.parts, told.sentence, localizer), HEADLINE - cell_len(word) - 2)
    return VerdictHead(told.status, word, claim, rest, localizer.line(" · ".join(about)))


def _carried(parts: dict[str, Any] | None, english: str, localizer: Localizer) -> str:
    spoken = text_from_json(parts, english, localizer)
    return capitalized(spoken) if localizer.lang == "en" else spoken


def waiting_pair(state: LiveState, localizer: Localizer) -> list[tuple[str, str]]:
    """Who waits, and for whom, each with where most of them stand; nothing where nobody waits for somebody."""
    standing = state.standing
    if standing is None or standing.waited_s < 1 or not standing.laggards or not standing.waiters:
        return []
    return [
        (localizer.line(localizer.say(ranks_label(tuple(sorted(ranks)))), 140), _most_at(state, set(ranks), localizer))
        for ranks in (standing.waiters, standing.laggards)
    ]


def _most_at(state: LiveState, ranks: set[int], localizer: Localizer) -> str:
    """The phase and the line; a phase without a name says nothing beside a line."""
    columns = zip(state.ranks.rank, state.ranks.phase, state.ranks.place, strict=True)
    counted = Counter((phase, place) for rank, phase, place in columns if rank in ranks)
    if not counted:
        return ""
    phase, place = counted.most_common(1)[0][0]
    where = state.places[place] if place >= 0 else ""
    named = localizer.word(PHASES[phase]) if PHASES[phase] != "other" or not where else ""
    return localizer.line(" · ".join(filter(None, (named, where))), 200)


def ordered_groups(state: LiveState) -> list[GroupColumns]:
    """The groups of which something is known, the one with the largest lag first."""
    known = [group for group in state.groups if group.rank]
    return sorted(known, key=lambda group: (min(group.enqueued) - max(group.enqueued), -len(group.rank), group.name))


def group_row(group: GroupColumns, localizer: Localizer) -> tuple[str, str, str, str]:
    """Its name, its ranks, how far the first is, and who is behind by how much."""
    first, last = max(group.enqueued), min(group.enqueued)
    late = [rank for rank, position in zip(group.rank, group.enqueued, strict=True) if position == last]
    late_ranks = localizer.say(ranks_label(tuple(late)))
    behind = localizer.say(say("{who} by {count}", who=late_ranks, count=first - last)) if first > last else "–"
    return localizer.line(f"{group.name} {group.backend}".strip(), 28), str(len(group.rank)), f"{first:,}", behind


def pace_sentence(state: LiveState, localizer: Localizer) -> tuple[str, bool] | None:
    """The slowest rank, or how much steps differ; and whether it is a complaint."""
    if state.totals.slowest is not None:
        return localizer.say(say("every step waits for rank {rank}", rank=state.totals.slowest)), True
    known = sorted(step_s for step_s in state.ranks.step_s if step_s > 0)
    if len(known) < 2:
        return None
    text = say("steps take {low} to {high}", low=seconds_text(known[0]), high=seconds_text(known[-1]))
    return localizer.say(text), False


def marked_phases_text(state: LiveState, localizer: Localizer) -> str:
    """Time in the phases the program marked, those that took longest; empty without any."""
    spent = sorted(state.totals.by_phase.items(), key=lambda one: -one[1][0])[:4]
    words = ", ".join(
        f"{localizer.line(label, 20)} {localizer.say(duration(seconds))}" for label, (seconds, _) in spent
    )
    return localizer.say(say("so far: {phases}", phases=words)) if spent else ""


def seconds_text(seconds: float) -> str:
    """``250 ms`` or ``1.25 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
