"""Ask unhang at each of the four moments of a story, and say what was run and whether the answer was right."""

from __future__ import annotations

import json
import shlex
import shutil
import statistics
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unhang.errors import MissingExtra, UnhangError
from unhang.sentences import Text, say
from unhang_lab.stories.judging import find_mistakes, missing_finding
from unhang_lab.stories.recorded_run import RecordedRun, record_story, run_patched
from unhang_lab.stories.story import BeforeAlso, ExpectedFinding, ImprovedFigure, Moment, Story
from unhang_lab.stories.workplace import Workplace, workplace
from unhang_lab.watched import Tell

CHECK_LIMIT_S = 120.0
FEWEST_OF_A_TENTH = 3
"""A median of fewer figures is one of them."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One command and what came of it. ``verdict``: what it answered; ``wrong``: empty when that was right."""

    command: str
    wrong: tuple[Text, ...]
    verdict: dict[str, Any] | None = None
    wanted: tuple[ExpectedFinding, ...] = ()
    also: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class MomentResult:
    """One moment of one story."""

    story: str
    moment: Moment
    steps: tuple[StoryStep, ...]
    took_s: float
    noticed_s: float | None = None

    @property
    def right(self) -> bool:
        """Every command answered as it must."""
        return bool(self.steps) and not any(step.wrong for step in self.steps)


def tell_before(story: Story, *, tell: Tell = lambda _: None) -> MomentResult:
    """``unhang check`` on the job as its users wrote it, and on the story's stored machines.

    Raises:
        MissingExtra: there is no PyTorch.
    """
    began, steps = time.monotonic(), []
    with workplace(story) as place:
        usual = story.before.command or story.command
        for asked in (story.before, *story.before.also):
            tell(say("asking unhang check"))
            steps.append(_check(place, asked, asked.command or usual))
    return MomentResult(story.name, Moment.BEFORE, tuple(steps), time.monotonic() - began)


def _check(place: Workplace, asked: BeforeAlso, command: tuple[str, ...]) -> StoryStep:
    words = [str(place.story.folder / one) if (place.story.folder / one).is_dir() else one for one in asked.options]
    typed = shlex.join(["unhang", "check", *asked.options, "--", *command])
    words = ["unhang", "check", *words, "--format", "json", "--", *command]
    document = _asked(place, words, place.job)
    if isinstance(document, Text):
        return StoryStep(typed, (document,))
    wrong = tuple(text for wanted in asked.findings for text in missing_finding(document, wanted, place.job))
    return StoryStep(typed, wrong, document, asked.findings)


def tell_during(recorded: RecordedRun) -> MomentResult:
    """What ``unhang run`` had said while the recorded job lived."""
    story, wrong = recorded.story, list(recorded.wrong)
    noticed_s, within_s = recorded.noticed_s, story.during.within_s
    if noticed_s is not None and noticed_s > within_s:
        wrong.append(say("it took {took:.0f} s, must be at most {most:.0f} s", took=noticed_s, most=within_s))
    typed = shlex.join(["unhang", "run", *story.during.options, "--", *story.command])
    step = StoryStep(typed, tuple(wrong), recorded.verdict, (story.during,))
    return MomentResult(story.name, Moment.DURING, (step,), noticed_s or 0.0, noticed_s)


def tell_after(recorded: RecordedRun) -> MomentResult:
    """``unhang diagnose`` on the log alone, and on the run folder."""
    began = time.monotonic()
    with workplace(recorded.story, prepared=False) as place:
        alone = place.root / "alone"
        alone.mkdir()
        with suppress(FileNotFoundError):
            shutil.copy2(recorded.log, alone / "job.log")
        log = _diagnose(place, recorded, "job.log", "job.log", alone, recorded.story.after.log)
        folder = str(recorded.run_folder)
        bundle = _diagnose(place, recorded, folder, "RUN-FOLDER", alone, recorded.story.after.bundle)
    return MomentResult(recorded.story.name, Moment.AFTER, (log, bundle), time.monotonic() - began)


def _diagnose(
    place: Workplace, recorded: RecordedRun, path: str, shown: str, folder: Path, wanted: ExpectedFinding
) -> StoryStep:
    document = _asked(place, ["unhang", "diagnose", path, "--format", "json"], folder)
    typed = f"unhang diagnose {shown}"
    if isinstance(document, Text):
        return StoryStep(typed, (document,))
    return StoryStep(typed, find_mistakes(document, wanted, recorded.job, recorded.output), document, (wanted,))


def _asked(place: Workplace, words: list[str], folder: Path) -> dict[str, Any] | Text:
    """The verdict that a command prints; without one, why."""
    try:
        code, out, err = place.run(words, limit_s=CHECK_LIMIT_S, folder=folder)
    except UnhangError as error:
        return say("{what}", what=str(error))
    try:
        found: dict[str, Any] = json.loads(out)
    except ValueError:
        last = (err.strip().splitlines() or [""])[-1]
        return say("it gave no verdict (exit code {code}): {last}", code=code, last=last)
    return found


@dataclass(slots=True)
class _Judged:
    wrong: list[Text] = field(default_factory=list)
    also: list[Text] = field(default_factory=list)


def tell_fixed(
    story: Story, root: Path, stalled: RecordedRun | None = None, *, tell: Tell = lambda _: None
) -> MomentResult:
    """The job with ``tell_fixed.patch``, run in the empty folder ``root``: it must end well and without a finding.

    Args:
        story: what to run.
        root: where it is run; kept.
        stalled: the recorded run, for a figure that must be better than there.
        tell: is told what happens.

    Raises:
        MissingExtra: there is no PyTorch.
    """
    began, judged = time.monotonic(), _Judged()
    typed = "patch -p1 < fixed.patch && " + shlex.join(story.fixed.command or story.command)
    verdict = None
    try:
        run = run_patched(story, root, tell=tell)
    except UnhangError as error:
        judged.wrong.append(say("{what}", what=str(error)))
    else:
        verdict = run.verdict
        judged.wrong += _not_well(run)
        if story.fixed.better is not None:
            _compare(story.fixed.better, run, stalled, judged)
    step = StoryStep(typed, tuple(judged.wrong), verdict, also=tuple(judged.also))
    return MomentResult(story.name, Moment.FIXED, (step,), time.monotonic() - began)


def _not_well(run: RecordedRun) -> Iterator[Text]:
    if run.exit_code is None:
        yield say("the repaired job did not end within {limit:.0f} s", limit=run.story.limit_s)
    elif run.exit_code != 0:
        last = (run.output.strip().splitlines() or [""])[-1]
        yield say("the repaired job ended with exit code {code}: {last}", code=run.exit_code, last=last)
    for finding in (run.verdict or {}).get("findings", ()):
        if finding["severity"] != "note":
            yield say("unhang run still found {cause}: {summary}", cause=finding["cause"], summary=finding["summary"])
    for pattern in run.story.fixed.shows:
        if not pattern.search(run.output):
            yield say("its output does not show {pattern}", pattern=pattern.pattern)


def _compare(better: ImprovedFigure, run: RecordedRun, stalled: RecordedRun | None, judged: _Judged) -> None:
    now = _figure(better, run)
    if now is None:
        judged.wrong.append(say("its output does not show {pattern}", pattern=better.pattern.pattern))
        return
    if stalled is None:
        judged.also.append(say("step time at the end, in multiples of the start: {now}", now=f"{now:.2g}"))
        return
    was = _figure(better, stalled)
    if was is None:
        judged.wrong.append(say("its output does not show {pattern}", pattern=better.pattern.pattern))
        return
    said = say(
        "step time at the end, in multiples of the start: {was} before, {now} now", was=f"{was:.2g}", now=f"{now:.2g}"
    )
    (judged.also if now <= was * better.at_most_share else judged.wrong).append(said)


def _figure(better: ImprovedFigure, run: RecordedRun) -> float | None:
    """How many times its first tenth the last tenth is, medians of both; None where there are too few to tell."""
    try:
        found = [float(figure) for figure in better.pattern.findall(run.output)]
    except ValueError:
        return None
    tenth = len(found) // 10
    if tenth < FEWEST_OF_A_TENTH or not (first := statistics.median(found[:tenth])):
        return None
    return statistics.median(found[-tenth:]) / first


def tell_story(
    story: Story, moments: Collection[Moment], folder: Path, *, tell: Tell = lambda _: None
) -> Iterator[MomentResult]:
    """A cell for each of ``moments``, as soon as it is known. ``folder`` keeps what the runs left.

    A job that could not be run gives cells that say so.

    Raises:
        MissingExtra: there is no PyTorch, or a library the story needs is missing.
    """
    stalled = None
    if Moment.BEFORE in moments:
        try:
            yield tell_before(story, tell=tell)
        except MissingExtra:
            raise
        except UnhangError as error:
            yield failed_moment(story.name, Moment.BEFORE, error)
    recorded = [moment for moment in (Moment.DURING, Moment.AFTER) if moment in moments]
    if recorded:
        try:
            stalled = record_story(story, folder / "stalled", tell=tell)
        except MissingExtra:
            raise
        except UnhangError as error:
            yield from (failed_moment(story.name, moment, error) for moment in recorded)
            recorded = []
    if stalled is not None and Moment.DURING in recorded:
        yield tell_during(stalled)
    if stalled is not None and Moment.AFTER in recorded:
        tell(say("reading what the job left behind"))
        yield tell_after(stalled)
    if Moment.FIXED in moments:
        yield tell_fixed(story, folder / "fixed", stalled, tell=tell)


def failed_moment(story: str, moment: Moment, error: UnhangError) -> MomentResult:
    """A moment that could not be asked about."""
    return MomentResult(story, moment, (StoryStep(story, (say("{what}", what=str(error)),)),), 0.0)
