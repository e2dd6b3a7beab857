"""The lines the user sees while a job runs, and at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from unhang.findings import Text, say
from unhang.report.language import translate
from unhang.watch.detection import Doing, Standing
from unhang.watch.members import Members
from unhang.watch.summary import Level, Summary
from unhang.watch.totals import Totals

QUIET_S = 6.0
QUIET_IN_INIT_S = 10.0
"""Processes of one job may take that long to start one after the other."""
_DOING = {
    Doing.IDLE: say("it stands still"),
    Doing.BUSY: say("it is busy"),
    Doing.SILENT: say("it gives no sign of life"),
    Doing.STOPPED: say("it is stopped"),
    Doing.DEAD: say("its process has ended"),
    Doing.ABSENT: say("it has not come to init_process_group"),
    Doing.OVER: say("it has closed its group"),
}
RULE = "─" * 64
TROUBLES_SHOWN = 3
_COMMA = {"zh": "，"}
_spoken = ["en"]


def speak(lang: str) -> None:
    """The language of every line from now on."""
    _spoken[0] = lang


def worth_a_line(standing: Standing) -> bool:
    """They have waited long enough for the quiet line."""
    return standing.due and standing.waited_s >= (QUIET_IN_INIT_S if standing.in_init else QUIET_S)


def waiting(standing: Standing, members: Members, last: Summary | None) -> str:
    """The quiet line: ranks wait, nothing is wrong yet as far as can be told. ``last``: what the last look came to."""
    seconds = standing.waited_s
    if not standing.laggards:
        return _line(_nobody_late(standing, members))
    first = standing.laggards[0]
    place = _place_of(first, members, last)
    return _line(
        say(
            "{waiters:who} {waiters:has|have} been waiting for {laggards:who} for {seconds:.0f} s: {doing}, {place}",
            waiters=sorted(standing.waiters),
            laggards=standing.laggards,
            seconds=seconds,
            doing=_DOING[standing.doing[first]],
            place=place,
        )
    )


def _nobody_late(standing: Standing, members: Members) -> Text:
    if members.missing and all(members.by_rank[rank].view.in_init for rank in standing.waiters):
        return say(
            "{waiters:who} {waiters:has|have} been waiting in init_process_group for {missing:who} for "
            "{seconds:.0f} s; no process of {missing:it|them} was seen here",
            waiters=sorted(standing.waiters),
            missing=list(members.missing),
            seconds=standing.waited_s,
        )
    return say("all ranks have been waiting for {seconds:.0f} s", seconds=standing.waited_s)


def _place_of(rank: int, members: Members, last: Summary | None) -> str:
    """Where it stands: its own record says, or for a rank without one the last look."""
    known = members.by_rank.get(rank)
    if known is not None and known.view.user.file:
        return f"{Path(known.view.user.file).name}:{known.view.user.line}"
    return Path(last.where).name if last is not None and rank in last.ranks and last.where else "?"


def verdict(summary: Summary, text: str, folder: Path) -> str:
    """The verdict, set apart from the job's own output."""
    folder_line = say("evidence: {folder}   again: unhang diagnose {folder}", folder=str(folder))
    return f"\n{RULE}\n{text.strip()}\n\n{_said(folder_line)}\n{RULE}\n" + (
        _line(say("the job goes on; nothing was done to it")) if summary.level == Level.SLOW.value else ""
    )


def countdown(left_s: float) -> str:
    """The end of the job's own limit comes near."""
    return _line(say("still stalled; the job's own limit ends it in {seconds:.0f} s", seconds=left_s))


def over(said: Summary) -> str:
    """A stall that was announced has ended by itself."""
    return _line(say("the wait for {ranks:who} is over; the job goes on", ranks=list(said.ranks)))


def aborting(summary: Summary) -> str:
    """``--on-hang abort`` begins."""
    return _line(say("ending the job because of {cause} (--on-hang abort)", cause=summary.cause))


def troubles(told: Mapping[int, Sequence[str]], members: Members) -> Iterator[str]:
    """What went wrong with us inside the ranks, a line each: the job went on, and we saw less."""
    ranks = {member.pid: rank for rank, member in members.by_rank.items()}
    for pid, lines in sorted(told.items())[:TROUBLES_SHOWN]:
        who = say("rank {rank}", rank=ranks[pid]) if pid in ranks else say("process {pid}", pid=pid)
        what = lines[0].partition(" ")[2] if lines else ""
        yield _line(say("less was seen of {who}: {what}", who=who, what=what))


def last_words(totals: Totals, members: Members, folder: Path) -> str:
    """Two lines: what the job did, what was found."""
    if not members.by_rank:
        return _lines(_nobody(members))
    parts = [say("{steps} steps", steps=totals.steps)] if totals.steps else [say("no steps counted")]
    if totals.median_step_s is not None:
        parts.append(say("median step {ms:.0f} ms", ms=totals.median_step_s * 1000))
    slowest = totals.slowest(members.by_rank)
    if slowest is not None:
        parts.append(say("slowest rank {rank}", rank=slowest))
    if members.missing:
        parts.append(say("could not look at {ranks:who}", ranks=list(members.missing)))
    told = f"unhang: {_COMMA.get(_spoken[0], ', ').join(map(_said, parts))}\n"
    if not totals.findings:
        return told + _line(say("nothing found"))
    found = ", ".join(dict.fromkeys(totals.findings))
    return told + _line(say("found: {found}; see {folder}", found=found, folder=str(folder)))


def _nobody(members: Members) -> Iterable[Text]:
    if not members.births:
        yield say("could not look: no rank of the job let unhang in (python -I, a container, or no distributed job)")
    else:
        ranks = sorted({birth.rank for birth in members.births.values() if birth.rank >= 0})
        yield say("{ranks:who} never called init_process_group: nothing to watch", ranks=ranks)


def _line(text: Text) -> str:
    return f"unhang: {_said(text)}\n"


def _said(text: Text) -> str:
    return translate(text, _spoken[0])


def _lines(texts: Iterable[Text]) -> str:
    return "".join(map(_line, texts))
