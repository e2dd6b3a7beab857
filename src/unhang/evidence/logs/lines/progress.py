"""Steps, iterations and progress bars, as a line tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.logs.lines.timestamps import elapsed_s
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

_NUMBER = r"\d[\d,]{0,14}"
_AMOUNT = r"[\d.]{1,20}[kKMGT]?"
_BAR = late_pattern(
    rf"(?P<label>[^|\r\n]{{0,120}}?):? {{0,4}}\d{{1,3}}%\|[^|]{{0,400}}\| *(?P<n>{_AMOUNT})/(?P<total>{_AMOUNT}) *"
    r"\[(?P<elapsed>(?:\d+ days?, )?[\d:]+)<(?P<left>[^,\]]*)(?:, *(?:[\d.]+|\?) *(?P<unit>[\w/ ]+?))?(?:[,\]]|$)"
)
_COUNTER = late_pattern(
    rf"(?P<label>[^|\r\n]{{0,80}}?):? {{0,4}}(?<![\d.])(?P<n>{_AMOUNT}) ?(?P<of>it|examples|steps?|batch(?:es)?|ba|ex) "
    r"\[(?P<elapsed>[\d:]+), *(?:[\d.]+|\?) *(?P<unit>[\w/ ]+)\]"
)
# The label before a counter is searched for lazily: find the unit first, and look for no label far before it.
_BEFORE_COUNTED = 105
_COUNTED = late_pattern(r"\d ?(?:it|examples|steps?|batch(?:es)?|ba|ex) \[")
_EPOCH_STEP = late_pattern(
    rf"\b[Ee]poch:? ?[\[(]?(?P<epoch>\d{{1,6}})(?:/\d+)?[\])]?,? ?[\[(] *(?P<n>{_NUMBER}) ?/ ?(?P<total>{_NUMBER})"
)
_STEP = late_pattern(
    r"(?<![\w.])(?P<label>(?:global|train(?:ing)?|total|current|val(?:idation)?|eval(?:uation)?|test(?:ing)?)?[_ ]?"
    r"(?:step|iter(?:ation)?|batch|steps|it|update|num_updates))"
    rf"(?:[_ ]?(?:num|number|idx|id|no\.?))?['\"]?\s{{0,8}}[:=#\[(]{{0,2}}\s{{0,12}}(?P<n>{_NUMBER})(?![\w.]*[.]\d)"
    rf"(?:\s{{0,4}}(?:/|of)\s{{0,12}}(?P<total>{_NUMBER}))?",
    re.IGNORECASE,
)
_DONE_OF = late_pattern(
    rf"(?<![\w.])(?P<label>[A-Za-z][A-Za-z _-]{{0,40}}):? {{1,4}}(?P<n>{_NUMBER})/(?P<total>{_NUMBER}) "
    r"(?P<unit>batch|step|iter(?:ation)?)(?:e?s)?\b"
)
_EPOCH = late_pattern(rf"\b(?P<label>[Ee]poch)['\"]?[ :=#\[]{{1,3}}(?P<n>{_NUMBER})(?:\s?/\s?(?P<total>{_NUMBER}))?\b")
_TRAINER = late_pattern(r"\{'(?:loss|eval_loss|train_loss)': ")
_PER_STEP_MS = late_pattern(
    r"(?:elapsed time per iteration|time per (?:step|iteration)|(?:step|iter(?:ation)?)[_ ]time) ?"
    r"\((?:ms|msec)\)[:= ]+(?P<ms>[\d.]+)"
)
_PER_STEP_S = late_pattern(
    r"(?:elapsed time per iteration(?: \(s\))?|time(?: per |/)(?:step|iter(?:ation)?)(?: \(s\))?|sec/(?:step|it)"
    r"|(?<!_)time|step[_ ]time|iter[_ ]time|dt)['\"]?[:= ]+(?P<s>\d+\.\d+) ?(?P<milli>ms\b)?"
    r"|(?P<each_s>\d+\.\d+) ?(?:s|secs?|seconds|(?P<each_milli>ms)) ?/ ?(?:step|it|iter(?:ation)?)\b"
)
# `Data (t): 38.702 Batch (t): 39.291` (open_clip), `Time: 0.61s (0.59) Data: 0.005` (timm),
# `time: 0.35 data_time: 0.01` (mmengine, detectron2), `Time  0.231 ( 0.5)  Data  0.003` (PyTorch's ImageNet example).
_OF_A_STEP = r"(?: ?\([ts]\))?['\"]?[:=]?\s{0,4}(?P<s>\d+\.\d+)"
_DATA_S = late_pattern(r"(?<![\w.])[Dd]ata(?:[ _]?(?:time|load(?:ing|er)?(?:[ _]time)?))?" + _OF_A_STEP)
_STEP_S = late_pattern(r"(?<![\w.])(?:[Bb]atch(?:[ _]time)?|(?:[Ii]ter|[Ss]tep)[ _]time|[Tt]ime)" + _OF_A_STEP)
_MAGNITUDE = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class LogStep:
    """One step as a line tells it."""

    label: str
    number: int
    total: int | None
    unit: str
    per_step_s: float | None = None
    elapsed_s: float | None = None


def find_step(text: str) -> LogStep | None:
    """The step a line tells, or None."""
    if not _hinted(text):
        return None
    if "%|" in text and (bar := _BAR.search(text)) is not None:
        return _step_of_bar(bar, _amount(bar["total"]))
    if (bar := _counter(text)) is not None:
        return _step_of_bar(bar, None)
    if "poch" in text and (found := _EPOCH_STEP.search(text)) is not None:
        return LogStep("step of epoch", _plain(found["n"]), _plain(found["total"]), "step", find_step_time(text))
    if (found := _STEP.search(text)) is not None:
        total = _plain(found["total"]) if found["total"] else None
        return LogStep(_label(found["label"]).lower(), _plain(found["n"]), total, "step", find_step_time(text))
    if "/" in text and (found := _DONE_OF.search(text)) is not None:
        return LogStep(
            _label(found["label"]), _plain(found["n"]), _plain(found["total"]), found["unit"], find_step_time(text)
        )
    if (found := _EPOCH.search(text)) is not None:
        total = _plain(found["total"]) if found["total"] else None
        return LogStep("epoch", _plain(found["n"]), total, "epoch")
    return None


def _step_of_bar(bar: re.Match[str], total: int | None) -> LogStep:
    return LogStep(
        _label(bar["label"]) or "bar",
        _amount(bar["n"]),
        total,
        _bar_unit(bar["unit"]),
        elapsed_s=elapsed_s(bar["elapsed"]),
    )


def _counter(text: str) -> re.Match[str] | None:
    counted = _COUNTED.search(text) if " [" in text else None
    return None if counted is None else _COUNTER.search(text, max(0, counted.start() - _BEFORE_COUNTED))


def _hinted(text: str) -> bool:
    """Whether a step may stand in a line. Written out: it is asked of every line."""
    return (
        "tep" in text
        or "ter" in text
        or "poch" in text
        or "%|" in text
        or "atch" in text
        or "/s]" in text
        or "/it" in text
        or "pdate" in text
        or "STEP" in text
        or "ITER" in text
        or "EPOCH" in text
        or "BATCH" in text
    )


def find_data_wait(text: str) -> tuple[float, float] | None:
    """(seconds the step waited for its data, seconds in all) as its line tells them; None where it tells not both."""
    if "ata" not in text or (data := _DATA_S.search(text)) is None:
        return None
    whole = _STEP_S.search(text, data.end()) or _STEP_S.search(text, 0, data.start())
    waited_s, all_s = (numbers.duration_s(found["s"]) if found is not None else None for found in (data, whole))
    return (waited_s, all_s) if waited_s is not None and all_s is not None and waited_s <= all_s else None


def is_trainer_line(text: str) -> bool:
    """A line of the transformers Trainer: a dict without a step."""
    return "{'" in text and _TRAINER.search(text) is not None


def _label(text: str) -> str:
    """A label without its own numbers, which change from step to step."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*(?:e[+-]?\d+)?", "#", text)).strip(" :|-#(")[-80:]


def _plain(text: str) -> int:
    return numbers.integer(text) or 0


def _amount(text: str) -> int:
    scale = _MAGNITUDE.get(text[-1:], 1)
    return int((numbers.decimal(text.rstrip("kKMGT"), most=numbers.MAX_INTEGER / scale) or 0.0) * scale)


def _bar_unit(unit: str | None) -> str:
    if not unit:
        return "step"
    bare = unit.strip()
    return (bare[2:] if bare.startswith("s/") else bare.removesuffix("/s")).strip() or "step"


def find_step_time(text: str) -> float | None:
    """Seconds a step took, as its line prints them; None where it does not."""
    if "time" not in text and "/it" not in text and "/step" not in text and "dt" not in text:
        return None
    if (found := _PER_STEP_MS.search(text)) is not None:
        return numbers.duration_s(found["ms"], 0.001)
    if (found := _PER_STEP_S.search(text)) is not None:
        milli = found["milli"] or found["each_milli"]
        return numbers.duration_s(found["s"] or found["each_s"], 0.001 if milli else 1)
    return None
