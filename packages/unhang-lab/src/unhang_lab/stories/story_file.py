r"""Read ``story.toml``.

::

    title = "…"                          one line; title_zh = "…" in Chinese
    command = ["torchrun", …]            run in a copy of the folder; so may be accelerate, deepspeed, python, unhang
    needs = ["datasets"]                 modules the job imports besides torch (optional)
    permits = ["unshare", …]             a command that must work, or the story cannot be run here (optional)
    ranks = 2
    limit_s = 90                         the whole run is ended then (on a loaded machine too: be generous)
    by_chance = true                     once in a while it ends well by luck: it is run again then (optional)
    prepare = [["python", "data.py"]]    commands run there first (optional), also before the fixed run
    [environment]                        variables of the job (optional)

    [before]                             `unhang check OPTIONS -- COMMAND` in the copy of the folder
    options = ["--only", "program"]      (optional); "--machine machine" is a folder of the story
    command = ["torchrun", …]            where the story's command is a script: what that starts (optional)
    [[before.finding]]                   WANTED, for any of its findings; several may be wanted
    [[before.also]]                      one more check (optional): options, command (optional), [[before.also.finding]]

    [during]                             `unhang run` of the command; WANTED of the first finding, while the job lives
    within_s = 30                        after the stall (or, where nothing stands still, the start); measured when idle
    options = []                         of `unhang run` (optional)
    then = "ends"                        the job ends by its own limit; "stop": we end it once it was judged (optional)
    [after.log]                          WANTED of `unhang diagnose job.log`, nothing else beside it
    [after.bundle]                       WANTED of `unhang diagnose RUN-FOLDER`

    [fixed]                              fixed.patch applied, the job run again: exit code 0 and no finding
    change = ["seed=42"]                 words of the remedy's `change` that was wanted above, and added by the patch
    shows = ["saved"]                    regular expressions its output must match
    prepare, command, environment        in place of, or on top of, the story's own (optional)
    [fixed.better]                       the step time that both runs print often (optional): pattern with one group,
    at_most_share = 0.5                  and how much of its growth may be left

WANTED: ``cause`` or, where nothing can be known, ``status`` alone; all else is optional: ``certainty`` (at least
this); ``ranks = [0]``, or ``fewest = "rank (?P<rank>\d+): (?P<count>\d+) batches"`` (the ranks with the smallest
count in the output); ``file`` and ``line`` (text, or several, of a line of that file: the verdict must stand on one
that holds it); ``check`` and ``subject`` (of a finding of check); ``says`` (words of its sentences); ``remedy`` (words
of a remedy's title or change); ``change`` (words of that remedy's ``change`` or ``set``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import tomli

from unhang.errors import UsageError
from unhang_lab.stories.patch import added_lines
from unhang_lab.stories.story import STORY_FILE, Story


def load_story(folder: Path) -> Story:
    """The story of ``folder``.

    Raises:
        UsageError: ``story.toml`` is missing, is not TOML, or does not say what a story needs; the sentence names it.
    """
    path = folder / STORY_FILE
    try:
        table = tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    try:
        story = msgspec.convert({**table, "folder": folder}, Story, dec_hook=_made)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from error
    _fits_its_patch(path, story)
    return story


def _made(kind: type, value: Any) -> Any:
    """A regular expression of its text, and the folder as it is."""
    if kind != re.Pattern[str]:
        return value
    try:
        return re.compile(value, re.MULTILINE)
    except (re.error, TypeError) as error:
        raise ValueError(f"no regular expression: {error}") from error


def _fits_its_patch(path: Path, story: Story) -> None:
    """The patch adds what the remedy said, and a remedy wanted of a verdict says it."""
    patch = story.folder / story.fixed.patch
    try:
        added = "\n".join(added_lines(patch.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {patch.name} cannot be read: {error}") from error
    used = " ".join(word for words in (*story.fixed.prepare, story.fixed.command or ()) for word in words)
    used += " ".join(f"{name}={value}" for name, value in story.fixed.environment.items())
    also = [one for further in story.before.also for one in further.findings]
    wanted = (*story.before.findings, *also, story.during, story.after.log, story.after.bundle)
    for words in story.fixed.change:
        if not any(words in change for one in wanted for change in one.change):
            raise UsageError(f"{path}: fixed.change {words!r} is the change of no remedy that is wanted of a verdict")
        if words not in added and words not in used:
            raise UsageError(f"{path}: {patch.name} does not add {words!r}, which fixed.change says")
