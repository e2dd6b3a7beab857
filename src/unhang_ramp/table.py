"""A ramp as a table for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.text import Text as Styled

from unhang import __version__
from unhang.report.language import translate
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.sentences import Text, say
from unhang_ramp.choices import TriedChoices
from unhang_ramp.ramp import Ramp
from unhang_ramp.trial import RampTrial

SCHEMA = "unhang.ramp/1"
GIGABYTE = 1 << 30


def to_document(ramp: Ramp, *, lang: str = "en") -> dict[str, Any]:
    """The object of ``--format json``; seconds and bytes, null where something is not known."""
    return {
        "schema": SCHEMA,
        "unhang": __version__,
        "lang": lang,
        "sizes": [_row(trial) for trial in ramp.trials],
        "good": _row(ramp.good) if ramp.good is not None else None,
        "gave_way": None
        if ramp.stop_reason is None
        else {
            "values": dict(ramp.trials[-1].values),
            "kind": ramp.kind,
            "because": translate(ramp.stop_reason, lang),
            "cause": ramp.trials[-1].cause or None,
            "last_words": list(ramp.trials[-1].last_words),
        },
    }


def _row(trial: RampTrial) -> dict[str, Any]:
    return {
        "values": dict(trial.values),
        "outcome": trial.outcome,
        "ranks": trial.ranks,
        "step_s": trial.typical_s,
        "spread": trial.spread,
        "steps": list(trial.step_s),
        "collective_share": trial.collective_share,
        "memory_free": trial.memory_free,
        "memory_of_rank": trial.memory_of_rank,
        "card_free": trial.card_free,
        "exit_code": trial.code,
        "seconds": trial.seconds,
    }


def choices_document(tried: TriedChoices, *, lang: str = "en") -> dict[str, Any]:
    """The same for choices: ``sizes`` with what is not sound about each, ``good`` the fastest sound one."""
    rows = [
        {**_row(trial), "kind": kind, "because": None if because is None else translate(because, lang)}
        for trial, (kind, because) in zip(tried.trials, tried.judgements, strict=True)
    ]
    good = _row(tried.sound[0]) if tried.sound else None
    return {"schema": SCHEMA, "unhang": __version__, "lang": lang, "sizes": rows, "good": good, "gave_way": None}


def choices_sheet(tried: TriedChoices, width: int, lang: str = "en") -> TextLayout:
    """The fastest sound choice, what was not sound about others, and every choice."""
    sheet, voice = TextLayout(width), Localizer(lang, Redactor())
    head = say("None of these runs succeeded.")
    if tried.sound:
        head = say("The fastest successful choice is {size}.", size=_size(tried.sound[0]))
    sheet.paragraph(Styled(voice.sentence(head), "bold green" if tried.sound else "bold yellow"), indent=0)
    for trial, (_, because) in zip(tried.trials, tried.judgements, strict=True):
        if because is not None:
            said = say("{size}: {because}", size=_size(trial), because=because)
            sheet.paragraph(voice.sentence(said), lead="• ")
    sheet.lines.append(Styled())
    outcomes = [kind or trial.outcome for trial, (kind, _) in zip(tried.trials, tried.judgements, strict=True)]
    sheet.code("\n".join(_table(tried.trials, voice, outcomes)), indent=2)
    return sheet


def ramp_sheet(ramp: Ramp, width: int, lang: str = "en") -> TextLayout:
    """What gave way, the largest good size with its price, and every size."""
    sheet, voice = TextLayout(width), Localizer(lang, Redactor())
    head = say("Every size up to the last one was sound.")
    if ramp.stop_reason is not None:
        head = say("It breaks at {size}.", size=_size(ramp.trials[-1]))
    sheet.paragraph(Styled(voice.sentence(head), "bold green" if ramp.stop_reason is None else "bold yellow"), indent=0)
    if ramp.stop_reason is not None:
        sheet.paragraph(voice.sentence(ramp.stop_reason), lead="• ")
    if ramp.good is not None:
        sheet.paragraph(voice.sentence(_price(ramp.good)), lead="• ")
    sheet.lines.append(Styled())
    sheet.code("\n".join(_table(ramp.trials, voice)), indent=2)
    last = ramp.trials[-1] if ramp.stop_reason is not None else None
    if last is not None and last.last_words:
        sheet.heading(voice.say(say("The last lines of its output")))
        sheet.code("\n".join(voice.clean(line) for line in last.last_words[-6:]))
    return sheet


def _size(trial: RampTrial) -> str:
    return ", ".join(f"{name}={value}" for name, value in trial.values.items())


def _price(trial: RampTrial) -> Text:
    return say(
        "the largest good size is {size}: {step:.3f} s per step, {free} of memory left",
        size=_size(trial),
        step=trial.typical_s or 0.0,
        free=_bytes(trial.card_free if trial.card_free is not None else trial.memory_free),
    )


def _table(trials: Sequence[RampTrial], voice: Localizer, outcomes: Sequence[str] = ()) -> list[str]:
    heads = (say("size"), say("outcome"), say("step time"), say("longest"), say("in collectives"), say("memory left"))
    rows = [[voice.say(head) for head in heads]]
    for trial, outcome in zip(trials, outcomes or [trial.outcome for trial in trials], strict=True):
        share = trial.collective_share
        rows.append(
            [
                _size(trial),
                outcome,
                f"{trial.typical_s:.3f} s" if trial.typical_s is not None else "-",
                f"{max(trial.step_s):.3f} s" if trial.step_s else "-",
                f"{100 * share:.0f} %" if share is not None else "-",
                _bytes(trial.card_free if trial.card_free is not None else trial.memory_free),
            ]
        )
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(heads))]
    return [
        "  ".join(f"{cell}{' ' * (w - cell_len(cell))}" for cell, w in zip(row, widths, strict=True)) for row in rows
    ]


def _bytes(count: int | None) -> str:
    return "-" if count is None else f"{count / GIGABYTE:.1f} GB"
