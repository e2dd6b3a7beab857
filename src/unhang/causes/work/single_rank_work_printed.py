"""single-rank-work: in logs alone: a bar of one rank spans the others' limit, or their stack says for whom they wait.

What happens: one rank tokenises, indexes, downloads or saves; its bar stands at the others' limit and is not done.
Why it hangs: the others wait in a barrier (`main_process_first`) or the next collective for as long as it works.
Example: `Running tokenizer … 9% [29:55<4:48:08]`, then ranks 1-3 time out after 30 minutes in an all-reduce of one
element.
Fix: prepare the data before the job, or on every rank; give the wait a limit that fits.
Certain when: never from logs alone: the rank's stack is not seen.
Possible when: only a barrier at the start of the job is known, or that rank 0 had not yet come to the first collective;
or the one rank that did not give up wrote lines during the wait that count nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.wording.store_wait_remedy import store_wait_remedy
from unhang.evidence.items import Progress
from unhang.facts.endings.ended_by_user import ended_by_user
from unhang.facts.laggard.active_during_wait import active_during_wait
from unhang.facts.laggard.main_process_first import MainProcessWait, main_process_wait
from unhang.facts.laggard.work_spanning_timeout import absent_rank, spanning_work, unfinished_work
from unhang.facts.logs.event_timing import is_training
from unhang.facts.logs.last_log_lines import LastLinePhase, last_line_phases
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts
from unhang.findings import Cause, Evidence, Grade, Phase, Source
from unhang.knowledge.remedies import remedy
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.sentences import say

CAUSE = Cause.SINGLE_RANK_WORK
# A barrier this early in a group, or before any step, is the one that frameworks put around preparing data.
FIRST_POSITIONS = whole_threshold("single_rank_work_printed.first_positions")
# The last line and the moment the others began to wait lie this close together.
SAME_MOMENT_S = threshold("single_rank_work_printed.same_moment_s")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Most telling first; one answer."""
    for look in (_bar, _main_process_wait, _active_during_wait, _last_line_phase, _first_barrier):
        told = look(facts)
        if told is not None:
            yield told
            return


def _lines_tell(facts: Facts, rank: int | None) -> bool:
    """Nothing shows where ``rank`` stood, so that what it printed last is where it was."""
    known = facts.ranks.get(rank) if rank is not None else None
    return known is None or (known.stack is None and known.recording is None)


def _waits(facts: Facts) -> tuple[Evidence, ...]:
    logged = logged_waits(facts)
    return tuple(wait.evidence for wait in logged.waits[:2]) if logged is not None else ()


def _bar(facts: Facts) -> Signal | None:
    """A bar's own clock stands at the others' limit, and it is not done."""
    work = spanning_work(facts)
    if work is None or not _lines_tell(facts, work.rank):
        return None
    logged = logged_waits(facts)
    ranks = () if work.rank is None else (work.rank,)
    minutes = work.elapsed_s / 60
    at_barrier = logged is not None and any(wait.barrier for wait in logged.waits)
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say(
            "{who} had worked on '{label}' for {minutes:.0f} minutes, as long as the others may wait, and was at "
            "{done} of {total}",
            who=say("{ranks:who}", ranks=ranks) if ranks else say("one process"),
            label=work.label,
            minutes=minutes,
            done=work.done,
            total=work.total,
        ),
        ranks=ranks,
        phase=Phase.DATA,
        because=(
            say("the limit in force is {limit:g} s", limit=work.limit_s)
            if work.limit_seen
            else say("torch's own limit is {limit:g} s, and the bar stands there", limit=work.limit_s),
            say("the bar was moving: the work is slow, not stuck"),
        ),
        evidence=(work.evidence, *_waits(facts)),
        remedies=(
            remedy("prepare-data-before-job"),
            *((store_wait_remedy("", None),) if at_barrier else ()),
            remedy("raise-main-process-timeout"),
        ),
    )


def _main_process_wait(facts: Facts) -> Signal | None:
    """A waiter's traceback ends in a barrier that lets the main process go first."""
    main_first_wait = main_process_wait(facts)
    if main_first_wait is None or _no_longer_prepares(facts, main_first_wait, logged_waits(facts)):
        return None
    ranks = (
        () if main_first_wait.local and main_first_wait.waiter is None else (_first_of_node(facts, main_first_wait),)
    )
    bar, by_hand = unfinished_work(facts), ended_by_user(facts)
    return make_signal(
        CAUSE,
        Grade.STACK,
        say("the main process ({ranks:who}) was still preparing; the others wait for it to go first", ranks=ranks),
        whole=by_hand is None or bar is not None,
        ranks=ranks,
        phase=Phase.DATA,
        waiter_where=main_first_wait.where,
        because=(
            say(
                "the stack of rank {rank} ends in a barrier that lets the main process go first",
                rank=main_first_wait.waiter,
            )
            if main_first_wait.waiter is not None
            else say("a waiter's stack ends in a barrier that lets the main process go first"),
            say("it gave up by its limit; the connection was not closed, so the main process lived")
            if by_hand is None
            else say("somebody interrupted it by hand while it waited; no line tells that the main process had come"),
            *(
                (
                    say(
                        "'{label}' stood at {done} of {total} and counted on",
                        label=bar.label,
                        done=bar.last_step,
                        total=bar.total,
                    ),
                )
                if bar is not None
                else ()
            ),
        ),
        evidence=(main_first_wait.evidence, *((_quote_bar(bar),) if bar is not None else ())),
        remedies=(
            store_wait_remedy(main_first_wait.context_manager, main_first_wait.where),
            remedy("prepare-data-before-job"),
            remedy("raise-main-process-timeout"),
        ),
    )


def _no_longer_prepares(facts: Facts, main_first_wait: MainProcessWait, logged: LoggedWaits | None) -> bool:
    """The main process is gone, or waits itself: it gave up, or stood in a call when somebody ended the job."""
    first, by_hand = _first_of_node(facts, main_first_wait), ended_by_user(facts)
    if logged is None:
        return by_hand is not None and first in by_hand.joined
    return first in logged.ranks or any(wait.partner_gone for wait in logged.waits)


def _quote_bar(bar: Progress) -> Evidence:
    return Evidence(Source(bar.source.path, bar.last_line), bar.last_text, bar.rank)


def _first_of_node(facts: Facts, main_first_wait: MainProcessWait) -> int:
    """Rank 0; where each node has its own first process, the first rank seen on the waiter's node."""
    if not main_first_wait.local or main_first_wait.waiter is None or main_first_wait.waiter not in facts.ranks:
        return 0
    host = facts.ranks[main_first_wait.waiter].host
    same = [r for r, known in facts.ranks.items() if host is not None and known.host == host]
    return min(same, default=0)


def _active_during_wait(facts: Facts) -> Signal | None:
    """The one rank that did not give up went on writing lines while all others waited."""
    work = active_during_wait(facts)
    if work is None or not _lines_tell(facts, work.rank):
        return None
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say(
            "rank {rank} was still writing lines {after:.0f} s after the others had begun to wait, "
            "and did not time out",
            rank=work.rank,
            after=work.after_s,
        ),
        whole=work.counts,  # else another thread may have written them
        ranks=(work.rank,),
        phase=work.phase,
        because=(
            say("a rank that waits in a collective writes nothing: it was busy with work of its own"),
            say("the others waited {wait:.0f} s, their whole limit", wait=work.wait_s),
        ),
        evidence=(work.evidence, *_waits(facts)),
        remedies=(remedy("spread-or-move-work", rank=work.rank), remedy("raise-main-process-timeout")),
    )


def _last_line_phase(facts: Facts) -> Signal | None:
    logged = logged_waits(facts)
    words = _busy_at_start(facts, logged) if logged is not None else None
    if words is None or words.rank is None or not _lines_tell(facts, words.rank):
        return None
    doing = "saving" if words.phase is Phase.SAVE else "evaluating"
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say(
            "possible: rank {rank} was still {doing} when the others had waited for their whole limit",
            rank=words.rank,
            doing=doing,
        )
        if words.counting
        else say(
            "possible: rank {rank} was {doing} when the others began to wait, and said nothing since",
            rank=words.rank,
            doing=doing,
        ),
        whole=False,  # whether it worked, waited or had failed is not in the log
        ranks=(words.rank,),
        phase=words.phase,
        because=(
            say("(time of the timeout - limit) is the moment of its last line")
            if words.time_s is not None
            else say(
                "its last words stand right before the timeouts, and {rank} is the one that did not time out",
                rank=words.rank,
            ),
            say("its bar had not come to its end")
            if words.counting
            else say("whether it worked, waited for storage or had failed is not in the log"),
        ),
        evidence=(words.evidence, *_waits(facts)),
        remedies=(remedy("inspect-awaited-rank", rank=words.rank), remedy("raise-main-process-timeout")),
    )


def _busy_at_start(facts: Facts, logged: LoggedWaits) -> LastLinePhase | None:
    """A rank that did not give up spoke of saving or evaluating at the moment the others began to wait."""
    began = logged.began_s
    for words in last_line_phases(facts):
        if words.rank in logged.rank_set or words.phase not in (Phase.SAVE, Phase.EVAL):
            continue
        rank = words.rank if words.rank is not None else absent_rank(facts, logged)
        if rank is None:
            continue
        timed = began is not None and words.time_s is not None
        if timed and abs((words.time_s or 0.0) - (began or 0.0)) > SAME_MOMENT_S:
            continue
        if timed or rank == absent_rank(facts, logged):
            return replace(words, rank=rank)
    return None


def _first_barrier(facts: Facts) -> Signal | None:
    logged = logged_waits(facts)
    if logged is None or not _waits_for_rank_0(facts, logged) or not _lines_tell(facts, 0):
        return None
    return make_signal(
        CAUSE,
        Grade.BASE_RATE,
        say(
            "possible: rank 0 was still preparing when the others had waited at the first barrier for their whole limit"
        ),
        ranks=(0,),
        phase=Phase.INIT,
        because=(
            say(
                "{ranks:who} {ranks:waits|wait} in one of the first collectives of the job: a barrier",
                ranks=logged.ranks,
            ),
            say("rank 0 did not time out in it, so it had not come there; its own log would say why"),
        ),
        evidence=tuple(w.evidence for w in logged.waits[:3]),
        remedies=(
            remedy("inspect-awaited-rank", rank=0),
            remedy("prepare-data-before-job"),
            remedy("raise-main-process-timeout"),
        ),
    )


def _waits_for_rank_0(facts: Facts, logged: LoggedWaits) -> bool:
    """Everyone who gave up waits in one of the first barriers, rank 0 is not among them, and it did not just vanish."""
    if 0 in logged.ranks or any(w.partner_gone for w in logged.waits) or not logged.waits:
        return False
    if facts.events_of("store.reset", "store.eof", "gloo.closed", "n.sock"):
        return False
    if absent_rank(facts, logged) != 0:
        return False
    no_step = not any(is_training(progress) for log in facts.logs for progress in log.progress)
    return all(
        (w.awaited == 0 and w.position is None)
        or (w.barrier and w.position is not None and (w.position <= FIRST_POSITIONS or no_step))
        for w in logged.waits
    )
