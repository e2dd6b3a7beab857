"""Choices of a ramp: settings that are tried one against another, alone or coupled, each for a few steps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unhang.errors import UsageError
from unhang.sentences import Text
from unhang_ramp.ramp import judge_size, try_values
from unhang_ramp.sizes import MAX_VALUES, Growth, check_placeholders
from unhang_ramp.trial import RampTrial, TrialLimits

_TRY = re.compile(
    r"(?P<names>[A-Za-z_]\w*(?:\*[A-Za-z_]\w*)*)=(?P<values>[^@]+)(?:@(?P<file>[^:]+):(?P<keys>[\w.*]+))?"
)
_NEXT = "unhang ramp --try zero=2,3@ds.json:zero_optimization.stage --try batch*accumulation=1*8,2*4 -- torchrun …"


@dataclass(frozen=True, slots=True)
class SettingChoice:
    """``settings`` that change together; each has as many values as there are ways."""

    settings: tuple[Growth, ...]

    @property
    def ways(self) -> int:
        """How many values it has."""
        return len(self.settings[0].values)


@dataclass(frozen=True, slots=True)
class TriedChoices:
    """Every combination that was run, and for each what is not sound about it: a word and a sentence, or ("", None)."""

    trials: tuple[RampTrial, ...]
    judgements: tuple[tuple[str, Text | None], ...]

    @property
    def sound(self) -> tuple[RampTrial, ...]:
        """Those that ended well, the fastest step first."""
        found = [one for one, (_, because) in zip(self.trials, self.judgements, strict=True) if because is None]
        return tuple(sorted(found, key=lambda one: one.typical_s or 0.0))


def parse_choice(text: str) -> SettingChoice:
    """``zero=2,3``, ``batch*accumulation=1*8,2*4``; after ``@FILE:`` the keys in that file, joined by ``*`` as well.

    Raises:
        UsageError: it is none of these.
    """
    match = _TRY.fullmatch(text)
    if match is None:
        raise UsageError(f"--try expects NAME=1,2 or ONE*OTHER=1*8,2*4, not {text}", next_step=_NEXT)
    names = match["names"].split("*")
    keys = (match["keys"] or "").split("*") if match["keys"] else [""] * len(names)
    rows = [[value.strip() for value in row.split("*")] for row in match["values"].split(",") if row.strip()]
    if len(keys) != len(names) or not rows or any(len(row) != len(names) or not all(row) for row in rows):
        raise UsageError(f"{text} needs {len(names)} values at a time, joined by *, and as many keys", next_step=_NEXT)
    columns = list(zip(*rows, strict=True))
    return SettingChoice(
        tuple(Growth(n, v, match["file"] or "", k) for n, v, k in zip(names, columns, keys, strict=True))
    )


def combinations(choices: Sequence[SettingChoice]) -> Iterator[dict[str, str]]:
    """All values of every combination, the last choice changing fastest."""
    for ways in itertools.product(*(range(one.ways) for one in choices)):
        yield {
            setting.name: setting.values[way]
            for one, way in zip(choices, ways, strict=True)
            for setting in one.settings
        }


def compare_choices(
    command: Sequence[str],
    choices: Sequence[SettingChoice],
    *,
    bounds: TrialLimits | None = None,
    keep: Path | None = None,
    tell: Callable[[RampTrial], None] = lambda _: None,
) -> TriedChoices:
    """Run ``command`` with every combination, whatever became of the others. ``keep`` and ``tell`` as in ``ramp()``.

    Raises:
        UsageError: the command and the choices do not fit, or there are too many combinations.
    """
    settings = [setting for one in choices for setting in one.settings]
    check_placeholders(command, settings)
    rows = list(combinations(choices))
    if len(rows) > MAX_VALUES:
        raise UsageError(
            f"that is {len(rows)} runs; at most {MAX_VALUES} are allowed", next_step="try fewer values at a time"
        )
    trials: list[RampTrial] = []
    for number, values in enumerate(rows, 1):
        trials.append(try_values(command, settings, values, bounds, None if keep is None else keep / f"{number:02d}"))
        tell(trials[-1])
    return TriedChoices(tuple(trials), tuple(judge_size(one, None, None) for one in trials))
