"""The lines the user sees while a job runs, and at its end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from unhang.evidence.logs.content.unhang_verdicts import SEPARATOR
from unhang.findings import Status
from unhang.report import labels
from unhang.report.language import translate
from unhang.report.printable import one_line
from unhang.sentences import Text, say
from unhang.watch.job.job_ranks import JobRanks
from unhang.watch.job.wait_detection import PlannedWait, WaitSnapshot
from unhang.watch.pace.pace_record import RunTotals
from unhang.watch.side_process import Recorded
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary
from unhang.wire.record import read_foreign_pids

_ACTIVITY_TEXTS = {
    RankActivity.IDLE: say("it is not moving"),
    RankActivity.BUSY: say("it is busy"),
    RankActivity.SILENT: say("it shows no sign of life"),
    RankActivity.STOPPED: say("it is stopped"),
    RankActivity.DEAD: say("its process has ended"),
    RankActivity.ABSENT: say("it has not reached init_process_group"),
    RankActivity.OVER: say("it has closed its process group"),
    RankActivity.WAITING: say("it is waiting too now"),
}
TROUBLES_SHOWN = 3
MIN_FREE_BYTES = 64 << 10
"""Bytes that the evidence of a few ranks takes."""
PHASES_SHOWN = 6
_COMMA = {"zh": "，"}
_language = ["en"]


def set_language(lang: str) -> None:
    """The language of every line from now on."""
    _language[0] = lang


def waiting_line(
    snapshot: WaitSnapshot, members: JobRanks, last: VerdictSummary | None, work: PlannedWait | None = None
) -> str:
    """The quiet line: ranks wait, nothing is wrong yet as far as is known. ``last``: what the last sample came to;
    ``work``: what the rank they wait for marked."""
    seconds = snapshot.waited_s
    if not snapshot.laggards:
        return line(_nobody_late(snapshot, members))
    late = sorted(snapshot.laggards, key=lambda rank: snapshot.doing[rank] is RankActivity.WAITING)
    first = late[0] if work is None else work.rank
    doing = _activity_text(first, snapshot, members) if work is None else _marked(work)
    if place := _place_of(first, members, last):
        doing = say("{doing}, {place}", doing=doing, place=place)
    return line(
        say(
            "{waiters:who} {waiters:has|have} been waiting for {laggards:who} for {seconds:.0f} s: {doing}",
            waiters=sorted(snapshot.waiters),
            laggards=snapshot.laggards,
            seconds=seconds,
            doing=doing,
        )
    )


def _activity_text(rank: int, snapshot: WaitSnapshot, members: JobRanks) -> Text:
    """What ``rank`` does, the work its program marked first: nobody knows better."""
    what, known = snapshot.doing[rank], members.by_rank.get(rank)
    if (
        known is not None
        and known.view.mark is not None
        and what in (RankActivity.BUSY, RankActivity.IDLE, RankActivity.WAITING)
    ):
        return _in_label(known.view.mark.label)
    if what is RankActivity.OVER and known is not None and not known.view.closed:
        return say("its program has ended")
    function = known.view.user.function if known is not None else ""
    if function.isidentifier() and what is RankActivity.BUSY:
        return say("it is busy in {function}", function=function)
    if function.isidentifier() and what is RankActivity.IDLE:
        return say("it is in {function}", function=function)
    return _ACTIVITY_TEXTS[what]


def _in_label(label: str) -> Text:
    return say("it is in {label}, as marked", label=label)


def _marked(work: PlannedWait) -> Text:
    if work.at_most_s is None:
        return _in_label(work.label)
    if work.over:
        return say("it is in {label}, marked to take at most {limit:.0f} s", label=work.label, limit=work.at_most_s)
    return say(
        "it has been in {label} for {gone:.0f} s, of at most {limit:.0f} s as marked",
        label=work.label,
        gone=work.gone_s,
        limit=work.at_most_s,
    )


def _nobody_late(snapshot: WaitSnapshot, members: JobRanks) -> Text:
    if members.missing and all(members.by_rank[rank].view.in_init for rank in snapshot.waiters):
        return say(
            "{waiters:who} {waiters:has|have} been waiting in init_process_group for {missing:who} for "
            "{seconds:.0f} s; no process of {missing:it|them} was seen here",
            waiters=sorted(snapshot.waiters),
            missing=list(members.missing),
            seconds=snapshot.waited_s,
        )
    return say("all ranks have been waiting for {seconds:.0f} s", seconds=snapshot.waited_s)


def _place_of(rank: int, members: JobRanks, last: VerdictSummary | None) -> str:
    """Where it stands: its own record says, or for a rank without one the last sample. Empty: nobody knows."""
    known = members.by_rank.get(rank)
    if known is not None and known.view.user.file:
        return f"{Path(known.view.user.file).name}:{known.view.user.line}"
    return Path(last.where).name if last is not None and rank in last.ranks and last.where else ""


def changed(before: VerdictSummary, now: VerdictSummary, text: str) -> str:
    """What of the verdict ``before`` no longer holds; ``text``, all of the new one, where it blames another."""
    told = "\n".join(f"  • {_translated(one)}" for one in _changes(before, now))
    words = f"{_translated(say('The verdict has changed:'))}\n{told}"
    blames = (before.cause, before.ranks) != (now.cause, now.ranks)
    return f"{words}\n\n{text.strip()}" if blames else words


def _changes(before: VerdictSummary, now: VerdictSummary) -> Iterator[Text]:
    if now.status != before.status:
        status, was = (_translated(labels.STATUS[Status(one.status)]) for one in (now, before))
        yield say("it is {now}, no longer {before}", now=status, before=was)
    if (before.status, now.status) == (Status.HANG.value, Status.SLOW.value) and before.ranks == now.ranks:
        yield say("since then {ranks:who} {ranks:has|have} used CPU or files", ranks=list(now.ranks))
    if now.cause != before.cause:
        yield say("the cause is {now}, not {before}", now=now.cause, before=before.cause)
    if now.ranks != before.ranks and now.ranks and before.ranks:
        yield say("it is {now:who}, not {before:who}", now=list(now.ranks), before=list(before.ranks))
    if now.where != before.where and now.where:
        yield say("the line is now {now}", now=Path(now.where).name)


def verdict(summary: VerdictSummary, text: str, folder: Path, *, ends: bool = False) -> str:
    """The verdict, set apart from the job's own output. ``ends``: the job is ended because of it."""
    folder_line = say("re-read it: unhang diagnose {folder}", folder=shlex.quote(one_line(str(folder))))
    return f"\n{SEPARATOR}\n{text.strip()}\n\n{_translated(folder_line)}\n{SEPARATOR}\n" + (
        line(say("the job was left running")) if summary.level == VerdictLevel.SLOW.value and not ends else ""
    )


def countdown(left_s: float, gives_up: str = "") -> str:
    """The limit of the wait comes near, or that of the guard ``gives_up``."""
    if gives_up:
        return line(say("still stalled; {guard} gives up in {seconds:.0f} s", guard=gives_up, seconds=left_s))
    return line(say("still stalled; the wait times out in {seconds:.0f} s", seconds=left_s))


def still_holds() -> str:
    """The job has ended, and why is the verdict that was said."""
    return line(say("the job has ended; the last verdict says why"))


def stall_over_line(said: VerdictSummary, waiters: Collection[int] = ()) -> str:
    """A stall that was announced has ended by itself; where nobody was named, the ``waiters`` tell which."""
    if not said.ranks and not waiters:  # of another node's wait nothing else is known
        return line(say("the wait is over; the job continues"))
    if not said.ranks:
        return line(say("the wait of {waiters:who} is over; the job continues", waiters=sorted(waiters)))
    return line(say("the wait for {ranks:who} is over; the job continues", ranks=list(said.ranks)))


def aborting(summary: VerdictSummary) -> str:
    """``--on-hang abort`` begins."""
    return line(say("ending the job because of {cause} (--on-hang abort)", cause=summary.cause))


def internal_error_lines(told: Mapping[int, Sequence[str]], members: JobRanks) -> Iterator[str]:
    """What went wrong with us inside the ranks, a line each: the job went on, and we saw less."""
    ranks = {member.pid: rank for rank, member in members.by_rank.items()}
    for pid, lines in sorted(told.items())[:TROUBLES_SHOWN]:
        who = say("rank {rank}", rank=ranks[pid]) if pid in ranks else say("process {pid}", pid=pid)
        what = lines[0].partition(" ")[2] if lines else ""
        yield line(say("limited data for {who}: {what}", who=who, what=what))


def not_recorded_line(recorded: Recorded) -> str:
    """Nothing where the history has the run."""
    if recorded is Recorded.KEPT:
        return ""
    if recorded is Recorded.BESIDE:
        return line(say("the history did not take this run in time; it was saved and follows with the next run"))
    return line(say("this run is not in the history: it could be written neither there nor into your state folder"))


def summary_lines(totals: RunTotals, members: JobRanks, folder: Path) -> str:
    """Two lines: what the job did, what was found."""
    if not members.by_rank:
        return _lines(_nobody(members))
    sources = {rank.view.step_source for rank in members.by_rank.values()}
    rounds = totals.steps and "rhythm" in sources  # may be a part of a step: DDP's buckets of one size look alike
    counted = say("{steps} steps", steps=totals.steps)
    if rounds:
        counted = say("{rounds} rounds of collectives", rounds=totals.steps)
    elif "optimizer" in sources:
        counted = say("{steps} optimizer steps", steps=totals.steps)
    parts = [counted] if totals.steps else []
    if totals.median_step_s is not None:
        ms = totals.median_step_s * 1000
        parts.append(say("median round {ms:.0f} ms", ms=ms) if rounds else say("median step {ms:.0f} ms", ms=ms))
    slowest = totals.slowest(members.by_rank)
    if slowest is not None:
        parts.append(say("slowest rank {rank}", rank=slowest))
    if members.missing:
        parts.append(say("could not observe {ranks:who}", ranks=list(members.missing)))
    told = f"unhang: {_COMMA.get(_language[0], ', ').join(map(_translated, parts))}\n" if parts else ""
    told += _by_phase(totals)
    if not totals.findings and totals.over:
        over = ", ".join(dict.fromkeys(totals.over))
        past = str(folder / ".unhang" / "past")
        return told + line(
            say("no lasting problem found; resolved by itself: {found}; see {folder}", found=over, folder=past)
        )
    if not totals.findings:
        return told + line(_nothing_found(totals, folder))
    found = ", ".join(dict.fromkeys(totals.findings))
    return told + line(say("found: {found}; see {folder}", found=found, folder=str(folder)))


def _nothing_found(totals: RunTotals, folder: Path) -> Text:
    if not totals.failed_samples:
        return say("no problem found")
    if _is_full(folder):
        where = str(folder)
        return say(
            "no problem found, but {times} samples failed: {folder} is full", times=totals.failed_samples, folder=where
        )
    return say(
        "no problem found, but {times} samples failed: see {log}",
        times=totals.failed_samples,
        log=str(folder / ".unhang" / "watcher.log"),
    )


def _is_full(folder: Path) -> bool:
    with suppress(OSError):
        space = os.statvfs(folder)
        return space.f_bavail * space.f_frsize < MIN_FREE_BYTES or (space.f_files > 0 and space.f_favail == 0)
    return False


def _by_phase(totals: RunTotals) -> str:
    """Where the time of the marked phases went, longest first; nothing where none was marked."""
    spent = sorted(totals.by_phase.items(), key=lambda item: -item[1][0])[:PHASES_SHOWN]
    each = [say("{label} {seconds:.1f} s ({times}×)", label=label, seconds=s, times=n) for label, (s, n) in spent]
    return (
        line(say("marked phases: {phases}", phases=_COMMA.get(_language[0], ", ").join(map(_translated, each))))
        if each
        else ""
    )


def _nobody(members: JobRanks) -> Iterable[Text]:
    if not members.registrations:
        yield say(
            "could not observe any rank of the job (python -I, a container, a Ray cluster that "
            "was already running, or not a distributed job)"
        )
    else:
        foreign = read_foreign_pids(members.records)
        told = [registration for registration in members.registrations.values() if registration.rank >= 0]
        unreadable = sorted({registration.rank for registration in told if registration.pid in foreign})
        ranks = sorted({registration.rank for registration in told} - set(unreadable))
        if unreadable:
            yield say(
                "could not observe {ranks:who}: another version of unhang is installed where they run",
                ranks=unreadable,
            )
        if ranks or not unreadable:
            yield say("{ranks:who} never called init_process_group: nothing to watch", ranks=ranks)


def line(text: Text) -> str:
    """A sentence as one line of the terminal."""
    return f"unhang: {one_line(_translated(text))}\n"


def _translated(text: Text) -> str:
    return translate(text, _language[0])


def _lines(texts: Iterable[Text]) -> str:
    return "".join(map(line, texts))
