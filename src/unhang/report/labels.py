"""The words around a verdict: headings, names of statuses, causes and certainties. Shared by every output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import reduce

from unhang.findings import Candidate, Certainty, Finding, Restart, Status, Verdict, World
from unhang.knowledge.worlds.roles import spoken_role
from unhang.sentences import Text, rank_ranges, say

STATUS: Mapping[Status, Text] = {
    Status.HANG: say("HANG"),
    Status.SLOW: say("SLOW"),
    Status.CRASH: say("CRASH"),
    Status.MISCONFIGURED: say("MISCONFIGURED"),
    Status.HEALTHY: say("HEALTHY"),
    Status.UNKNOWN: say("UNKNOWN"),
}

CERTAINTY: Mapping[Certainty, Text] = {
    Certainty.CERTAIN: say("certain"),
    Certainty.LIKELY: say("likely"),
    Certainty.POSSIBLE: say("possible"),
}


def found_no_problem(verdict: Verdict) -> bool:
    """Nothing is wrong, and nothing proves that the job is well."""
    return verdict.status is Status.UNKNOWN and verdict.health is not None


def status_label(verdict: Verdict) -> Text:
    """The first word: the status; of a job in which nothing is wrong and nothing proves it, that."""
    if found_no_problem(verdict):
        return say("NO PROBLEM FOUND")
    return STATUS[verdict.status]


ADVICE: Mapping[str, Text] = {
    "as-is": say("Restart as is."),
    "after-change": say("Do not restart before you fix this."),
    "without-node": say("Restart without {nodes}."),
}


SMALL_SHARE = 0.3
"""Below it a share is said as one of so many."""


def told_label(value: str, known: Mapping[Status, Text] | Mapping[Certainty, Text]) -> Text:
    """The word for a status or certainty that a document tells; one of another version is said as it stands."""
    return next((text for member, text in known.items() if member.value == value), Text("{value}", {"value": value}))


def first_and_others(verdict: Verdict) -> tuple[Finding | None, tuple[Finding, ...]]:
    """What the screen speaks of, and what was also found: of a job that is well all of it."""
    first = None if verdict.status is Status.HEALTHY else next(iter(verdict.findings), None)
    return first, verdict.findings[first is not None :]


def headline(verdict: Verdict) -> Text:
    """The one sentence a reader sees first; of a job that is well the proof, where it is one."""
    first, _ = first_and_others(verdict)
    if first is not None:
        return first.summary
    if verdict.status is Status.HEALTHY:
        proven = say("Nothing is wrong, and the evidence shows it.")
        return verdict.checked[0].what if len(verdict.checked) == 1 else proven
    return say("The evidence does not show why the job stopped.")


def world_label(world: str) -> Text:
    """The name of a world, by its id."""
    return Text("{world}", {"world": spoken_role(world)})


def worlds_text(verdict: Verdict) -> Text:
    """The worlds of the job, each with what its framework calls it and how many of its ranks were read."""
    return reduce(lambda one, more: say("{one}; {more}", one=one, more=more), map(_world_text, verdict.worlds))


def _world_text(world: World) -> Text:
    name, count, called = world_label(world.id), len(world.ranks_seen), world.programs[:1] or (world.called,)
    if world.world_size is not None:
        return say(
            "{name} ({called}): {count} of {world} ranks read",
            name=name,
            called=called[0],
            count=count,
            world=world.world_size,
        )
    if not count:
        return say("{name} ({called}): no line names a rank", name=name, called=called[0])
    return say("{name} ({called}): {count} {count:rank|ranks} read", name=name, called=called[0], count=count)


def ranks_seen_text(verdict: Verdict) -> Text:
    """How many ranks the evidence covers; nothing where no problem was found and the gaps say who is missing."""
    if verdict.worlds:
        return worlds_text(verdict)
    count, missing, world = len(verdict.ranks_seen), verdict.ranks_missing, verdict.world_size
    if found_no_problem(verdict) and verdict.not_checked and (missing or world is None):
        return Text("")
    if not verdict.ranks_seen:
        return say("The input does not say which rank it is from.")
    if world is None:
        return say("Ranks read: {ranks}. The world size is unknown.", ranks=verdict.ranks_seen)
    if world == 1 and not missing:
        return say("Read the only rank.")
    if missing:
        return say(
            "Read {count} of {world} ranks; {ranks:who} {ranks:is|are} missing.",
            count=count,
            world=world,
            ranks=missing,
        )
    return say("Read all {world} ranks.", world=world)


def ranks_label(ranks: tuple[int, ...]) -> Text:
    """``rank 3`` or ``ranks 0-2, 7``."""
    if len(ranks) == 1:
        return say("rank {rank}", rank=ranks[0])
    return say("ranks {ranks}", ranks=short_ranks(ranks))


def rank_count(ranks: tuple[int, ...]) -> Text:
    """How many ranks and which come first: ``500 ranks: 0, 2, 4, …``."""
    return say("{count} ranks: {first}", count=len(ranks), first=short_ranks(ranks, 12).rsplit(" (", 1)[0])


def short_ranks(ranks: Iterable[int], limit: int = 60) -> str:
    """Ranks as ranges; beyond ``limit`` characters the first ones and how many there are."""
    known = tuple(ranks)
    spoken = rank_ranges(known)
    if len(spoken) <= limit:
        return spoken
    return f"{spoken[:limit].rsplit(',', 1)[0]}, … ({len(set(known))})"


NEXT = say("Next")
REASONS_SHOWN = 4
BACKGROUND = say("Common causes of similar logs, not a diagnosis")


def background_text(candidate: Candidate) -> Text:
    """How often public reports that looked like this had this cause, and what would show it here."""
    share = Fraction(candidate.share).limit_denominator(5)
    if candidate.share < SMALL_SHARE:
        share = Fraction(1, max(1, round(1 / candidate.share)))
    share = min(share, Fraction(9, 10))
    return say(
        "{cause}, about {part} in {whole} similar public reports; settled by {what}",
        cause=candidate.cause.value,
        part=share.numerator,
        whole=share.denominator,
        what=candidate.settles,
    )


def checkpoint_advice(restart: Restart) -> list[Text]:
    """From which checkpoint to go on, and from which not; empty where nobody looked."""
    lines = []
    if restart.last_complete_checkpoint:
        lines.append(say("Last complete checkpoint: {path}", path=restart.last_complete_checkpoint))
    elif restart.torn_checkpoints:
        lines.append(say("No complete checkpoint was found."))
    lines += [
        say("Do not resume from {path}: {because}", path=torn.path, because=torn.because)
        for torn in restart.torn_checkpoints
    ]
    return lines


def restart_advice(verdict: Verdict) -> Text | None:
    """What the verdict says about running again; None when it says nothing, or the job is well."""
    template = ADVICE.get(verdict.restart.advice)
    if template is None or verdict.status is Status.HEALTHY:
        return None
    return Text(template.template, {"nodes": ", ".join(verdict.restart.exclude_nodes)})
