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
    [fixed.better]                       a figure that both runs print often (optional): what = "growth of the step
    at_most_share = 0.5                  time", pattern with one group, and how much of that growth may be left

WANTED: ``cause`` or, where nothing can be known, ``status`` alone; all else is optional: ``certainty`` (at least
this); ``ranks = [0]``, or ``fewest = "rank (?P<rank>\d+): (?P<count>\d+) batches"`` (the ranks with the smallest
count in the output); ``file`` and ``line`` (text, or several, of a line of that file: the verdict must stand on one
that holds it); ``check`` and ``subject`` (of a finding of check); ``says`` (words of its sentences); ``remedy`` (words
of a remedy's title or change); ``change`` (words of that remedy's ``change`` or ``set``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import tomli

from unhang.errors import UsageError
from unhang.findings import Cause, Certainty, Status
from unhang_lab.stories.patch import added_lines
from unhang_lab.stories.story import (
    STORY_FILE,
    Before,
    BeforeAlso,
    During,
    ExpectedFinding,
    Fixed,
    ImprovedFigure,
    Story,
)

T = TypeVar("T")
_WANTED = frozenset(ExpectedFinding.__slots__)
_LISTS = ("line", "says", "change")


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
    story = _Table(path, "", table).read(_story)
    _fits_its_patch(path, story)
    return story


class _Table:
    """One table of the file, which says where it is when something is wrong in it."""

    def __init__(self, path: Path, place: str, values: Any) -> None:
        self.path, self.place = path, place
        if not isinstance(values, Mapping):
            raise UsageError(f"{path}: {place or 'the file'} must be a table")
        self.values = dict(values)

    def wrong(self, name: str, must: str) -> UsageError:
        return UsageError(f"{self.path}: {f'{self.place}.' if self.place else ''}{name} {must}")

    def read(self, reader: Callable[[_Table], T]) -> T:
        """What ``reader`` makes of the table; every name must have been asked for."""
        found = reader(self)
        if self.values:
            raise self.wrong(min(self.values), "is no word of a story")
        return found

    def table(self, name: str) -> _Table:
        if name not in self.values:
            raise self.wrong(name, "is missing")
        return _Table(self.path, f"{self.place}.{name}".strip("."), self.values.pop(name))

    def tables(self, name: str) -> list[_Table]:
        found = self.values.pop(name, [])
        if not isinstance(found, list):
            raise self.wrong(name, "must be a list of tables")
        return [_Table(self.path, f"{self.place}.{name}".strip("."), one) for one in found]

    def text(self, name: str, default: str | None = None) -> str:
        found = self.values.pop(name, default)
        if not isinstance(found, str):
            raise self.wrong(name, "is missing" if found is None else "must be a text")
        return found

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        found = self.values.pop(name, default)
        found = [found] if isinstance(found, str) and name in _LISTS else found
        if found is None:
            raise self.wrong(name, "is missing")
        if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
            raise self.wrong(name, "must be a list of texts")
        return tuple(found)

    def commands(self, name: str) -> tuple[tuple[str, ...], ...]:
        found = self.values.pop(name, [])
        if not isinstance(found, list) or not all(isinstance(one, list) and one for one in found):
            raise self.wrong(name, "must be a list of commands, each a list of words")
        return tuple(tuple(map(str, one)) for one in found)

    def yes(self, name: str) -> bool:
        found = self.values.pop(name, False)
        if not isinstance(found, bool):
            raise self.wrong(name, "must be true or false")
        return found

    def number(self, name: str) -> float:
        found = self.values.pop(name, None)
        if not isinstance(found, int | float) or isinstance(found, bool) or found <= 0:
            raise self.wrong(name, "is missing" if found is None else "must be a number above 0")
        return float(found)

    def one_of(self, name: str, known: type[T], default: T | None = None) -> T:
        found = self.text(name, None if default is None else str(getattr(default, "value", default)))
        try:
            return known(found)  # type: ignore[call-arg]
        except ValueError as error:
            values = ", ".join(str(one.value) for one in known)  # type: ignore[attr-defined]
            raise self.wrong(name, f"is {found!r}, must be one of {values}") from error

    def variables(self) -> dict[str, str]:
        found = self.values.pop("environment", {})
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise self.wrong("environment", "must be a table of texts")
        return found

    def pattern(self, name: str, text: str, groups: tuple[str, ...] = ()) -> re.Pattern[str]:
        try:
            made = re.compile(text, re.MULTILINE)
        except re.error as error:
            raise self.wrong(name, f"is no regular expression: {error}") from error
        if not set(groups) <= set(made.groupindex):
            raise self.wrong(name, "must have the groups " + " and ".join(f"(?P<{one}>…)" for one in groups))
        return made


def _story(table: _Table) -> Story:
    title = {"en": table.text("title")}
    title |= {"zh": table.text("title_zh")} if "title_zh" in table.values else {}
    after = table.table("after")
    log, bundle = after.table("log").read(_wanted), after.table("bundle").read(_wanted)
    after.read(lambda _: None)
    return Story(
        folder=table.path.parent,
        title=title,
        command=_command(table),
        ranks=int(table.number("ranks")),
        limit_s=table.number("limit_s"),
        before=table.table("before").read(_before),
        during=table.table("during").read(_during),
        log=log,
        bundle=bundle,
        fixed=table.table("fixed").read(_fixed),
        prepare=table.commands("prepare"),
        environment=table.variables(),
        needs=table.texts("needs", ()),
        by_chance=table.yes("by_chance"),
        permits=table.texts("permits", ()),
    )


def _command(table: _Table) -> tuple[str, ...]:
    words = table.texts("command")
    if not words:
        raise table.wrong("command", "is empty")
    return words


def _wanted(table: _Table) -> ExpectedFinding:
    needs_cause = "status" not in table.values  # a log alone may leave the cause open, and must say so
    asked = {name: table.values.pop(name) for name in _WANTED & set(table.values)}
    words = _Table(table.path, table.place, asked)
    ranks = asked.pop("ranks", None)
    words.values.pop("ranks", None)
    if ranks is not None and not (isinstance(ranks, list) and all(type(one) is int for one in ranks)):
        raise table.wrong("ranks", "must be a list of numbers")
    fewest = words.text("fewest", "")
    return words.read(
        lambda one: ExpectedFinding(
            cause=one.one_of("cause", Cause) if needs_cause or "cause" in one.values else None,
            status=one.one_of("status", Status) if "status" in one.values else None,
            certainty=one.one_of("certainty", Certainty, Certainty.POSSIBLE),
            ranks=None if ranks is None else tuple(ranks),
            fewest=one.pattern("fewest", fewest, ("rank", "count")) if fewest else None,
            file=one.text("file", ""),
            line=one.texts("line", ()),
            check=one.text("check", ""),
            subject=one.text("subject", ""),
            says=one.texts("says", ()),
            remedy=one.text("remedy", ""),
            change=one.texts("change", ()),
        )
    )


def _before(table: _Table) -> Before:
    command = _command(table) if "command" in table.values else None
    also = tuple(one.read(_also) for one in table.tables("also"))
    return Before(table.texts("options", ()), _findings(table), also, command)


def _also(table: _Table) -> BeforeAlso:
    command = _command(table) if "command" in table.values else None
    return BeforeAlso(table.texts("options", ()), _findings(table), command)


def _findings(table: _Table) -> tuple[ExpectedFinding, ...]:
    found = tuple(one.read(_wanted) for one in table.tables("finding"))
    if not found:
        raise table.wrong("finding", "is missing: nothing would be wanted of it")
    return found


def _during(table: _Table) -> During:
    within_s, options, then = table.number("within_s"), table.texts("options", ()), table.text("then", "ends")
    if then not in ("ends", "stop"):
        raise table.wrong("then", f'is {then!r}, must be "ends" or "stop"')
    return During(_wanted(table), within_s, options, then)


def _fixed(table: _Table) -> Fixed:
    shows = tuple(table.pattern("shows", text) for text in table.texts("shows"))
    return Fixed(
        change=table.texts("change"),
        shows=shows,
        patch=table.text("patch", "fixed.patch"),
        prepare=table.commands("prepare"),
        command=_command(table) if "command" in table.values else None,
        environment=table.variables(),
        better=table.table("better").read(_better) if "better" in table.values else None,
    )


def _better(table: _Table) -> ImprovedFigure:
    pattern = table.pattern("pattern", table.text("pattern"))
    if pattern.groups != 1:
        raise table.wrong("pattern", "must have one group: the figure")
    return ImprovedFigure(table.text("what"), pattern, table.number("at_most_share"))


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
    wanted = (*story.before.findings, *also, story.during.wanted, story.log, story.bundle)
    for words in story.fixed.change:
        if not any(words in change for one in wanted for change in one.change):
            raise UsageError(f"{path}: fixed.change {words!r} is the change of no remedy that is wanted of a verdict")
        if words not in added and words not in used:
            raise UsageError(f"{path}: {patch.name} does not add {words!r}, which fixed.change says")
