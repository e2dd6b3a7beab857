"""The one run of a story that ``during`` and ``after`` are told from: its log, its run folder, when it was judged."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from unhang.sentences import Text, say
from unhang.view.regular_files import read_json_as
from unhang.wire.documents.verdict_summary import HEALTHY
from unhang_lab.stories.judging import find_mistakes
from unhang_lab.stories.story import Story
from unhang_lab.stories.workplace import POLL_S, Workplace, workplace
from unhang_lab.watched import Tell

ATTEMPTS = 3
"""Of a story that may end well by chance."""
SETTLE_S = 3.0
"""A verdict that is right already is written again as certainty grows; it is looked at this much longer."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What is left of a run. ``verdict``: the one that was read while the job lived, the right one where there was one.

    ``noticed_s``: from the stall (or the start, where nothing stood still) to that verdict, None without one.
    """

    story: Story
    root: Path
    verdict: dict[str, Any] | None
    wrong: tuple[Text, ...]
    noticed_s: float | None
    exit_code: int | None

    @property
    def job(self) -> Path:
        """The job's files."""
        return self.root / "job"

    @property
    def log(self) -> Path:
        """What the job printed, nothing of ours in it."""
        return self.root / "job.log"

    @property
    def run_folder(self) -> Path:
        """What ``unhang run`` left."""
        return self.root / "run"

    @property
    def terminal(self) -> str:
        """What ``unhang run`` said."""
        return _text(self.root / "terminal.txt")

    @property
    def output(self) -> str:
        """What the job printed."""
        return _text(self.log)


def record_story(story: Story, root: Path, *, tell: Tell = lambda _: None) -> RecordedRun:
    """Run ``story`` under ``unhang run`` in the empty folder ``root`` until it ends, at most ``limit_s``.

    Raises:
        MissingExtra: there is no PyTorch.
        UnhangError: a command of ``prepare`` failed, or a process could not be ended.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with workplace(story, root) as place:
            tell(say("starting the job under unhang run"))
            found = _watch(place, story.command, story.during.options, tell, _right_while_it_lives)
        if attempt == ATTEMPTS or not story.by_chance or found.exit_code != 0 or found.verdict is not None:
            break
        tell(say("by chance all ranks drew the same numbers and the job ended well: starting it again"))
        shutil.rmtree(root)
    return found


def run_patched(story: Story, root: Path, *, tell: Tell = lambda _: None) -> RecordedRun:
    """Run the repaired job the same way. ``verdict`` is what ``unhang run`` found, which should be nothing.

    Raises:
        MissingExtra: there is no PyTorch.
        UnhangError: the patch does not fit, a command of ``prepare`` failed, or a process could not be ended.
    """
    with workplace(story, root, patched=True) as place:
        tell(say("running the fixed job"))
        return _watch(place, story.fixed.command or story.command, (), tell, lambda _place, _watching: False)


@dataclass(slots=True)
class _RunInProgress:
    """A run as far as it has come."""

    began_s: float
    verdict: dict[str, Any] | None = None
    wrong: tuple[Text, ...] = ()
    noticed_s: float | None = None


def _watch(
    place: Workplace,
    command: tuple[str, ...],
    options: tuple[str, ...],
    tell: Tell,
    judge: Callable[[Workplace, _RunInProgress], bool],
) -> RecordedRun:
    root = place.root
    # the job's output goes to a file, as with `torchrun … > job.log 2>&1`; what unhang says goes to another
    words = ["unhang", "run", "--dir", str(root / "run"), *options, "--", "sh", "-c", 'exec "$@" > "$0" 2>&1']
    words += [str(root / "job.log"), *command]
    watching = _RunInProgress(time.time(), wrong=(say("unhang run gave no verdict while the job was running"),))
    with (
        (root / "terminal.txt").open("wb") as terminal,
        place.started(words, terminal.fileno(), terminal.fileno()) as front,
    ):
        code = _until_it_ends(place, watching, front, tell, judge)
    verdict = watching.verdict if watching.verdict is not None else _verdict(root)
    return RecordedRun(place.story, root, verdict, watching.wrong, watching.noticed_s, code)


def _until_it_ends(
    place: Workplace,
    watching: _RunInProgress,
    front: subprocess.Popen[bytes],
    tell: Tell,
    judge: Callable[[Workplace, _RunInProgress], bool],
) -> int | None:
    """Its exit code; None where the limit came first, or where it was to be stopped once it was judged."""
    deadline = time.monotonic() + place.story.limit_s
    judged = False
    while time.monotonic() < deadline:
        code = front.poll()
        if code is not None:
            return code
        if not judged and judge(place, watching):
            judged = True
            tell(say("unhang run gave its verdict; the job is still alive"))
            if place.story.during.then == "stop":
                deadline = min(deadline, time.monotonic() + SETTLE_S)
        time.sleep(POLL_S)
    return None


def _right_while_it_lives(place: Workplace, watching: _RunInProgress) -> bool:
    document = _verdict(place.root)
    if document is None:
        return False
    watching.verdict = document
    watching.wrong = find_mistakes(document, place.story.during, place.job, _text(place.root / "job.log"))
    if not watching.wrong:
        stalled = document["stalled_since"]
        since_s = datetime.fromisoformat(stalled).timestamp() if stalled else watching.began_s
        watching.noticed_s = max(time.time() - since_s, 0.0)
    return not watching.wrong


def _verdict(root: Path) -> dict[str, Any] | None:
    """What was found; None where nothing was, and where the run ended well."""
    found: dict[str, Any] | None = read_json_as(root / "run" / "verdict.json", dict)
    return None if found is None or found.get("status") == HEALTHY else found


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_bytes().decode("utf-8", "replace")
    return ""
