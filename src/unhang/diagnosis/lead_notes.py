"""What is added to the first finding, whatever detector it is of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.wording import machine_reasons, own_line_reasons
from unhang.causes.wording.next_steps import OF_NOBODY, inspect_all, program_of
from unhang.causes.wording.pace_reasons import slowdown_text
from unhang.facts.endings.crashes import Crash, crashes_after_timeout, first_timeouts, signal_name
from unhang.facts.endings.own_last_lines import caught_exceptions, own_last_lines
from unhang.facts.endings.stated_failures import LastWords, last_words
from unhang.facts.laggard.planned_work import is_overlong, marked_work
from unhang.facts.machine.machine_state import MachineSign, machine_signs, signs_of_rank, spinning_cards, storage_signs
from unhang.facts.model import Facts, RankState
from unhang.facts.pace.step_slowdown import step_slowdown
from unhang.facts.waiting.timeouts import live_manifest
from unhang.findings import Cause, Consequence, Evidence, Finding, Grade, Phase, Severity, Verdict
from unhang.knowledge.numbers import TimeForm, time_text, utc_time
from unhang.knowledge.reasoning_rows import causes_that
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, message_of_line, say
from unhang.wire.documents.earlier_verdicts import EarlierSuspect, gpus_named


def note_repeats(facts: Facts, verdict: Verdict) -> Verdict:
    """Adds a reason to the first finding where verdicts of earlier runs named its host or card."""
    lead = verdict.lead
    if lead is None or lead.cause not in causes_that("stays-with-host", "may-be-host"):
        return verdict
    notes = tuple(_note(guilt) for guilt in named_before(facts, lead))
    return verdict.led_by(replace(lead, because=(*lead.because, *notes))) if notes else verdict


def named_before(facts: Facts, lead: Finding) -> Iterator[EarlierSuspect]:
    """Hosts and cards of ``lead`` that verdicts of earlier runs named."""
    hosts = set(lead.nodes) | {facts.ranks[r].host or "" for r in lead.ranks if r in facts.ranks}
    if lead.cause is Cause.UNKNOWN and not lead.ranks:
        hosts = hosts_of_job(facts)
    cards = gpus_named(" ".join(item.text for item in lead.evidence), hosts)
    for guilt in facts.earlier:
        if (guilt.name in hosts) if guilt.kind == "host" else (guilt.name in cards):
            yield guilt


def hosts_of_job(facts: Facts) -> set[str]:
    """Every host that is known to run a rank."""
    return {rank.host for rank in facts.ranks.values() if rank.host}


def _note(guilt: EarlierSuspect) -> Text:
    last = utc_time(guilt.last_s)
    return say(
        "earlier verdicts named {name} too (runs: {runs}; last on {day}: {cause})",
        name=guilt.name,
        runs=guilt.runs,
        day=last.date().isoformat() if last is not None else "?",
        cause=guilt.cause,
    )


_NO_ROOM = ("No space left", "Errno 28", "Disk quota exceeded", "inline_container.cc", "iostream error")
"""The last two are what torch.save says of a disk that took only a part of a file."""

_STORES = (Phase.SAVE, Phase.LOG, Phase.DATA)
MAX_RANKS = 4


def note_machine_state(facts: Facts, verdict: Verdict) -> Verdict:
    """Adds what samples of the machines show to the first finding: a busy card that only waits, a full disk behind a
    failed write, and what held up a rank that takes long: its card, its processors, its disk.
    """
    lead = verdict.lead
    if lead is None:
        return verdict
    signs = (*_full_disks(facts, lead), *_signs_of_lead(facts, lead))
    notes = (*_spinning(facts, lead), *machine_reasons.because(signs))
    if not notes:
        return verdict
    return verdict.led_by(
        replace(
            lead,
            because=(*lead.because, *notes),
            evidence=(*lead.evidence, *machine_reasons.evidence(signs)),
            remedies=(*machine_reasons.remedies(signs), *lead.remedies),
        )
    )


def _spinning(facts: Facts, lead: Finding) -> Iterator[Text]:
    """A card that shows 100 % while nothing moves does no work: NCCL's kernel spins until its peers come."""
    if lead.severity is not Severity.STOPS:
        return
    ranks = tuple(sorted({sign.rank for sign in spinning_cards(facts) if sign.rank is not None} - set(lead.ranks)))
    if ranks:
        yield say(
            "the GPUs of {ranks:who} show full utilization but do no work: a waiting collective keeps its GPU busy",
            ranks=ranks,
        )


def _full_disks(facts: Facts, lead: Finding) -> Iterator[MachineSign]:
    """The error speaks of no room, and the samples show where there is none."""
    text = f"{lead.summary} {' '.join(item.text for item in lead.evidence)}"
    if any(word in text for word in _NO_ROOM):
        yield from (sign for sign in machine_signs(facts) if sign.kind == "disk-full")


def _signs_of_lead(facts: Facts, lead: Finding) -> Iterator[MachineSign]:
    """What the detector of a rank that takes long did not say itself of this rank's card, processors and disk."""
    if lead.cause not in causes_that("work", "takes-long"):
        return  # of any other cause a slow machine is no part: the program, or another fault, stops the job
    told = {item.text for item in lead.evidence}
    for rank in lead.ranks[:MAX_RANKS]:
        known = facts.ranks.get(rank)
        sleeps = known is not None and known.activity is not None and known.activity.what == "sleep"
        if sleeps or (known is not None and known.state is RankState.STOPPED):
            continue  # it asks nothing of its machine
        storage = storage_signs(facts, (rank,))
        waits = lead.phase in _STORES or any(sign.kind == "rank-blocked" for sign in storage)
        for sign in (*signs_of_rank(facts, rank), *(storage if waits else ())):
            if sign.evidence.text not in told and len(told) < machine_reasons.MAX_SIGNS + len(lead.evidence):
                told.add(sign.evidence.text)
                yield sign


def note_late_ends(facts: Facts, verdict: Verdict) -> Verdict:
    """Makes what ended only after the limit had passed a consequence of the first finding: ranks had waited in vain
    already, so such an end did not start the stall.
    """
    late = crashes_after_timeout(facts)
    lead = verdict.lead
    if not late or lead is None:
        return verdict
    alike: dict[str, list[Crash]] = {}
    for crash in late:
        alike.setdefault(_how(crash), []).append(crash)
    ends = tuple(_consequence(facts, how, crashes) for how, crashes in alike.items())
    return verdict.led_by(replace(lead, consequences=(*lead.consequences, *ends)))


def _how(crash: Crash) -> str:
    if crash.signal is not None:
        return signal_name(crash.signal)
    return crash.exception or f"exit code {crash.exit_code}"


def _consequence(facts: Facts, how: str, crashes: list[Crash]) -> Consequence:
    ranks = tuple(sorted({c.rank for c in crashes if c.rank is not None}))
    return Consequence(Cause.RANK_CRASHED, ranks, len(crashes), _summary(facts, how, crashes[0], ranks))


def _summary(facts: Facts, how: str, first: Crash, ranks: tuple[int, ...]) -> Text:
    past_s = first_timeouts(facts).after_s(first.time_s, first.attempt)
    if past_s is None or past_s <= 0:
        if not ranks:
            return say("a process ended with {how} after a limit had passed: the stall began earlier", how=how)
        return say(
            "{ranks:who} ended with {how} after a limit had passed: the stall began earlier", ranks=ranks, how=how
        )
    after_s = round(past_s)
    if not ranks:
        return say(
            "a process ended with {how} {after} s after the limit had passed: the stall began earlier",
            how=how,
            after=after_s,
        )
    return say(
        "{ranks:who} ended with {how} {after} s after the limit had passed: the stall began earlier",
        ranks=ranks,
        how=how,
        after=after_s,
    )


def note_slowdown(facts: Facts, verdict: Verdict) -> Verdict:
    """Adds to the first finding since which step a job that grew slower is slow, where no rank's pace shows it."""
    lead = verdict.lead
    if lead is None or (facts.straggler is not None and facts.straggler.change is not None):
        return verdict
    growing = step_slowdown(facts)
    if growing is None or lead.summary == slowdown_text(growing):
        return verdict
    remedies = (remedy("profile-growing-step-time"),) if lead.cause is Cause.UNKNOWN else ()
    return verdict.led_by(
        replace(
            lead,
            because=(slowdown_text(growing), *lead.because),
            evidence=tuple(dict.fromkeys((*lead.evidence, growing.evidence))),
            remedies=(*lead.remedies, *remedies),
        )
    )


def note_marks(facts: Facts, verdict: Verdict) -> Verdict:
    """Puts first in the first finding what the program of a live job says itself of work that holds the job up."""
    lead = verdict.lead
    if lead is None or lead.cause not in causes_that("work") or lead.cause is Cause.TIMEOUT_TOO_SHORT:
        return verdict
    if live_manifest(facts) is None:
        return verdict
    return verdict.led_by(replace(lead, because=(*_mark_reasons(facts, lead.ranks), *lead.because)))


def _mark_reasons(facts: Facts, ranks: tuple[int, ...]) -> Iterator[Text]:
    for rank, work in marked_work(facts, ranks).items():
        if work.at_most_s is None:
            yield say("rank {rank} reports that it is in {label}", rank=rank, label=work.label)
        elif is_overlong(work):
            yield say(
                "rank {rank} has been in {label} for {gone:.0f} s; its program allows {limit:g} s",
                rank=rank,
                label=work.label,
                gone=work.gone_s,
                limit=work.at_most_s,
            )
        else:
            yield say(
                "rank {rank} reports that it is in {label}, which may take up to {limit:g} s",
                rank=rank,
                label=work.label,
                limit=work.at_most_s,
            )


MAX_ERRORS = 3


_GENERIC = ("issue-same-collectives", "issue-same-step-collectives")
"""They only say to look for what the rank's own line names."""


def note_own_lines(facts: Facts, verdict: Verdict) -> Verdict:
    """Adds to the first finding what the ranks it names printed last and no other rank did, and what they caught; and
    what to change at the line where one of them went its own way.
    """
    lead = verdict.lead
    if lead is None or lead.severity is not Severity.STOPS or lead.cause in causes_that("below-program", "at-start"):
        return verdict
    apart = lead.cause in causes_that("other-way")
    if not apart and not all(_lives(facts, rank) for rank in lead.ranks):
        return verdict
    ranks = lead.ranks or (facts.ranks_seen if apart else ())
    quoted = {(quote.source.path, quote.source.line) for quote in lead.evidence}
    caught, said = (
        [
            own
            for own in found
            if (own.evidence.source.path, own.evidence.source.line) not in quoted and (lead.ranks or own.parts_ranks)
        ]
        for found in (caught_exceptions(facts, ranks), own_last_lines(facts, ranks))
    )
    if not said and not caught:
        return verdict
    told = tuple(own_line_reasons.caught(own) for own in caught)
    may_part = apart or lead.cause is Cause.UNKNOWN
    mended = tuple(each for own in (*said, *caught) for each in own_line_reasons.remedies(own)) if may_part else ()
    generic = (*mended, *map(remedy, _GENERIC)) if mended else ()
    return verdict.led_by(
        replace(
            lead,
            because=(
                *(text for own in said for text in own_line_reasons.because(own, (*told, *lead.because))),
                *told,
                *lead.because,
            ),
            evidence=(*(own.evidence for own in (*said, *caught)), *lead.evidence),
            remedies=(*mended[:1], *(each for each in lead.remedies if each not in generic)),
        )
    )


def _lives(facts: Facts, rank: int) -> bool:
    """It did not end by itself: one that did says why."""
    known = facts.ranks.get(rank)
    return known is not None and known.was_seen_alive


def note_last_words(facts: Facts, verdict: Verdict) -> Verdict:
    """Where nothing in the logs is recognised, quotes the last errors and the last line of all, and says
    who fell silent first, which program printed it, and whom to ask next.
    """
    lead = next(iter(verdict.findings), None)
    if lead is None or lead.cause is not Cause.UNKNOWN or lead.grade not in (None, Grade.EXCLUSION, Grade.WORDS):
        return verdict
    words, program = last_words(facts), program_of(facts)
    quotes: dict[tuple[str, int | None], Evidence] = {}
    for quote in (*lead.evidence, *words.errors[:MAX_ERRORS], *words.last):
        quotes.setdefault((quote.source.path, quote.source.line), quote)
    well_so_far = lead.severity is Severity.NOTE and not words.errors
    summary, detector = lead.summary, lead.detector
    if lead.severity is Severity.NOTE and words.errors:
        detector = "last-words"  # an error that nobody explains is a problem
        summary = say("no cause recognised; the last error is: {line}", line=message_of_line(words.errors[0].text, 120))
    return verdict.led_by(
        replace(
            lead,
            summary=summary,
            detector=detector,
            because=(*lead.because, *_about_last_words(words, program, told=well_so_far)),
            evidence=tuple(quotes.values()),
            remedies=lead.remedies if well_so_far else inspect_all(facts),
        )
    )


def _about_last_words(words: LastWords, program: str, *, told: bool) -> Iterator[Text]:
    """``told``: when the last line came is said where it matters."""
    if program not in OF_NOBODY:
        yield say("{program} printed this log", program=program)
    end, since = (time_text(each, TimeForm.DAY) if each is not None else "" for each in (words.end_s, words.since_s))
    if end and since:
        yield say(
            "rank {rank} fell silent first, at {since}; the last line is from {end}",
            rank=words.silent,
            since=since,
            end=end,
        )
    elif end and not told:
        yield say("the last line is from {end}", end=end)
