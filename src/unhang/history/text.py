"""The history as people read it, and as one JSON object."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from unhang.history.run import ENDED, FAILED, GOOD, SLOW, STALLED, NeededSetting, PastRun, RunFinding, day_of
from unhang.history.suspects import Suspect
from unhang.knowledge.numbers import utc_time
from unhang.report.first_lines import known_cause
from unhang.report.labels import ranks_label
from unhang.report.layout.console import Console
from unhang.report.layout.durations import duration
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.report.text_serialization import text_from_json
from unhang.sentences import Text, say

SCHEMA = "unhang.history-list/1"
SUSPECTS_SHOWN = 8
MAY_BE_CHANCE, MAX_ODDS = 0.5, 1_000_000
HEADS = (say("run"), say("started"), say("took"), say("result"), say("steps"), say("command"))
_OUTCOMES = {
    GOOD: say("ended well"),
    STALLED: say("stalled"),
    FAILED: say("failed"),
    SLOW: say("slow"),
    ENDED: say("ended, not seen how"),
}


def as_text(
    runs: Sequence[PastRun], suspects: Sequence[Suspect], needed: Sequence[NeededSetting], lang: str, width: int
) -> str:
    """What machines need and who was named more than once come first, then the runs, newest first."""
    localizer = Localizer(lang, Redactor())
    lines = []
    if needed:
        lines.append(localizer.say(say("Settings needed by machine")))
        lines += [f"  {localizer.line(f'{one.host}: {one.setting} ({one.how})')}" for one in needed]
        lines.append("")
    if not runs:
        none = localizer.say(say("No runs yet: unhang run records one line per run here."))
        return "\n".join([*lines, none]) + "\n"
    again = named_again(suspects)
    if again:
        lines.append(localizer.say(say("Named repeatedly")))
        lines += [f"  {localizer.say(suspect_text(one))}" for one in again]
        lines.append("")
    return "\n".join([*lines, _table(runs, localizer, width)])


def named_again(suspects: Iterable[Suspect]) -> list[Suspect]:
    """Those of more than one run, what chance explains least first."""
    again = [one for one in suspects if one.runs > 1]
    return sorted(again, key=lambda one: 1.0 if one.chance is None else one.chance)[:SUSPECTS_SHOWN]


def suspect_text(one: Suspect) -> Text:
    """``3 of 12 runs named gpu-b04, last on …: gpu-hardware; by chance 1 in 4,000``."""
    told: dict[str, Any] = {"name": one.name, "runs": one.runs, "day": day_of(one.last_s), "cause": one.cause}
    if not one.of:
        return say("{runs} runs named {name}, last on {day}: {cause}", **told)
    told["of"] = one.of
    if one.chance is None:
        return say("{runs} of {of} runs named {name}, last on {day}: {cause}", **told)
    if one.chance >= MAY_BE_CHANCE:
        return say("{runs} of {of} runs named {name}, last on {day}: {cause}; this may be chance", **told)
    odds = _odds(one.chance)
    return say("{runs} of {of} runs named {name}, last on {day}: {cause}; by chance 1 in {odds}", odds=odds, **told)


def _odds(chance: float) -> str:
    """One in how many, in two digits: ``4,000``."""
    if chance < 1 / MAX_ODDS:
        return f"{MAX_ODDS:,}+"
    times = 1 / chance
    return f"{round(times, 2 - len(str(int(times)))):,.0f}"


def _table(runs: Iterable[PastRun], localizer: Localizer, width: int) -> str:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for head, right in zip(HEADS, (True, False, True, False, True, False), strict=True):
        table.add_column(localizer.say(head), justify="right" if right else "left", overflow="fold")
    for run in runs:
        table.add_row(*run_cells(run, localizer))
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def run_cells(run: PastRun, localizer: Localizer) -> tuple[str, ...]:
    """A run under :data:`HEADS`."""
    took = localizer.say(duration(run.ended_s - run.started_s))
    told = (str(run.number), _when(run.started_s), took, outcome(run, localizer))
    return (*told, str(run.steps or "–"), localizer.line(run.command, 60))


def outcome(run: PastRun, localizer: Localizer) -> str:
    """What came of a run, with the cause, ranks and place of its last verdict."""
    words = [localizer.say(_OUTCOMES.get(run.outcome, _OUTCOMES[ENDED]))]
    if run.verdicts:
        told = run.verdicts[0]
        words.append(told.cause)
        if told.ranks:
            words.append(localizer.say(ranks_label(told.ranks)))
        if told.place:
            words.append(localizer.line(Path(told.place).name, 40))
    return " · ".join(words)


def _sentence(told: RunFinding, localizer: Localizer) -> str:
    return text_from_json(told.parts, told.sentence, localizer)


def run_as_text(run: PastRun, good: PastRun | None, lang: str) -> str:
    """One run: what was run, what came of it, and which run of the same job ended well before."""
    localizer = Localizer(lang, Redactor())
    lines = [
        localizer.line(run.command),
        f"{_when(run.started_s)} · {localizer.line(run.cwd)} · {outcome(run, localizer)}",
    ]
    for told in run.verdicts:
        where = localizer.parenthesized(told.place) if told.place else ""
        about = " · ".join(known_cause(told.cause, told.certainty, localizer))
        lines.append("  " + localizer.colon.join(filter(None, (about, _sentence(told, localizer)))) + where)
    lines.append(localizer.say(say("evidence: unhang diagnose {folder}", folder=run.folder)))
    if good is None:
        lines.append(localizer.say(say("No earlier run of this job ended well.")))
    else:
        last = say("Last good run of this job: {number}, {when}", number=good.number, when=_when(good.started_s))
        changed = say("what changed since: unhang compare {a} {b}", a=good.folder, b=run.folder)
        lines += [localizer.say(last), localizer.say(changed)]
    return "\n".join(lines) + "\n"


def as_json(runs: Sequence[PastRun], suspects: Sequence[Suspect], needed: Sequence[NeededSetting], lang: str) -> str:
    """The same as one object, its sentences in ``lang``."""
    localizer = Localizer(lang, Redactor())
    rows = [_row(run, localizer) for run in runs]
    named, machine = [asdict(one) for one in suspects], [asdict(one) for one in needed]
    found = {"schema": SCHEMA, "runs": rows, "named": named, "needed": machine}
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def run_as_json(run: PastRun, good: PastRun | None, lang: str) -> str:
    """One run and the last good one before it."""
    localizer = Localizer(lang, Redactor())
    last_good = None if good is None else _row(good, localizer)
    found = {"schema": SCHEMA, "run": _row(run, localizer), "last_good": last_good}
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _row(run: PastRun, localizer: Localizer) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in PastRun.__slots__ if name not in ("verdicts", "settings")},
        "verdicts": [_verdict(told, localizer) for told in run.verdicts],
    }


def _verdict(told: RunFinding, localizer: Localizer) -> dict[str, Any]:
    kept = {name: getattr(told, name) for name in RunFinding.__slots__ if name != "parts"}
    return kept | {"sentence": _sentence(told, localizer)}


def _when(time_s: float) -> str:
    when = utc_time(time_s)
    return when.astimezone().strftime("%Y-%m-%d %H:%M") if when is not None else "?"
