"""What leaves the machine of a run: its state without secrets, for the page and for ``unhang view`` elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from unhang.report.localizer import Localizer
from unhang.report.text_serialization import clean_serialized
from unhang.view import sentences
from unhang.view.reading import RunReading, SharedReading
from unhang.wire.documents.live_state import LiveState, LiveVerdict

MAX_GROUP_ROWS = 12
LONGEST = 1_000
"""Characters of one text; nothing a person reads is longer."""


def secret_cleaner(localizer: Localizer) -> Callable[[str], str]:
    """Cleans one text; the same few texts come every second."""

    @lru_cache(maxsize=16_384)
    def clean(text: str) -> str:
        return localizer.line(text, LONGEST)

    return clean


def share_reading(reading: RunReading, clean: Callable[[str], str]) -> SharedReading:
    """``reading`` with every text cleaned."""
    state = reading.state
    return SharedReading(
        reading.live,
        clean(str(reading.because or "")),
        clean(reading.name),
        _cleaned(state, clean) if state else None,
        [(clean(english), clean_serialized(parts, clean)) for english, parts in reading.ended],
    )


def _cleaned(state: LiveState, clean: Callable[[str], str]) -> LiveState:
    replace = msgspec.structs.replace
    told, run, totals = state.verdict, state.run, state.totals
    command = clean(" ".join(run.command))  # together: a secret may follow the option that names it
    return replace(
        state,
        run=replace(run, command=[command], folder=clean(run.folder), nodes=[clean(node) for node in run.nodes]),
        places=[clean(place) for place in state.places],
        labels=[clean(label) for label in state.labels],
        groups=[replace(group, name=clean(group.name), backend=clean(group.backend)) for group in state.groups],
        verdict=_cleaned_headline(told, clean) if told is not None else None,
        totals=replace(totals, by_phase={clean(label): spent for label, spent in totals.by_phase.items()}),
    )


def _cleaned_headline(told: LiveVerdict, clean: Callable[[str], str]) -> LiveVerdict:
    return msgspec.structs.replace(
        told, where=clean(told.where), sentence=clean(told.sentence), parts=clean_serialized(told.parts, clean)
    )


def page_state(told: SharedReading, reading: RunReading, localizer: Localizer, *, has_report: bool) -> dict[str, Any]:
    """The state and the sentences about it, for the page."""
    state = told.state
    document: dict[str, Any] = {
        "live": told.live,
        "because": sentences.missing_state_reason(reading, localizer),
        "folder": told.folder,
        "report": has_report,
    }
    if state is None:
        return document
    now = RunReading(reading.folder, told.live, state, reading.because, tuple(told.ended))
    standing, groups = state.standing, sentences.ordered_groups(state)
    told_pace = sentences.pace_sentence(state, localizer)
    return document | {
        "at_s": state.at_s,
        "started_s": state.run.started_s,
        "command": " ".join(state.run.command),
        "facts": sentences.run_facts(state, localizer),
        "condition": sentences.condition(state, now, localizer),
        "verdict": sentences.headline(state, localizer, live=told.live),
        "waits": sentences.waiting_pair(state, localizer),
        "late": standing.laggards if standing is not None and standing.waited_s >= 1 else [],
        "nodes": state.run.nodes,
        "places": state.places,
        "labels": state.labels,
        "ranks": _columns(state),
        "groups": [sentences.group_row(group, localizer) for group in groups[:MAX_GROUP_ROWS]],
        "more_groups": max(0, len(groups) - MAX_GROUP_ROWS),
        "pace": told_pace,
        "marked": sentences.marked_phases_text(state, localizer),
    }


def _columns(state: LiveState) -> dict[str, list[Any]]:
    """What the page draws of each rank; columns in which all are alike go as one value."""
    ranks = state.ranks
    names = ("rank", "node", "state", "phase", "label", "place", "step", "step_s", "waits_s")
    columns = {name: getattr(ranks, name) for name in names}
    return {name: column[:1] if len(set(column)) == 1 else column for name, column in columns.items()}
