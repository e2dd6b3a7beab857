"""Whether the job is shown to be well. Silence is never health: every rank of a known world needs something positive.

A rank is well when it ended with 0 or said that its work was done, when a sample of the living job saw it move, or when
its steps advance to the very end of what was read, beside those of all others; or when a launcher or a scheduler tells
of all that they ended well. A job that stalls a minute later shows such steps too, so whatever could not be read leaves
the first alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unhang.evidence.items import LogEnding, Progress
from unhang.evidence.logs.lines.prefixes import is_cpp_error
from unhang.facts.endings.good_endings import StatedEndings, good_endings
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.last_log_lines import phase_of_line
from unhang.facts.model import Facts, RankFacts, RankState
from unhang.facts.world_size import is_world_size_stated
from unhang.findings import PassedCheck, Phase, shortened
from unhang.knowledge.messages import message_row
from unhang.sentences import Text, say

ENDED, SAID, MOVES, STEPS = "ended", "said", "moves", "steps"
_NOT_WELL = (RankState.CRASHED, RankState.STOPPED, RankState.ENDED_WITH_OTHERS)


@dataclass(frozen=True, slots=True)
class Health:
    """``proof``: what shows that every rank is well; empty where it is not shown, and then ``lacks`` says why."""

    proof: tuple[Text, ...]
    lacks: tuple[Text, ...] = ()


def proof_as_checks(proof: Iterable[Text]) -> tuple[PassedCheck, ...]:
    """Proof of health as ``Verdict.checked``."""
    return tuple(PassedCheck("health", sentence) for sentence in proof)


def health_of(facts: Facts) -> Health:
    """What shows that the job is well, or what is missing to say so."""
    stated = good_endings(facts)
    if stated.whole is not None and not any(known.state in _NOT_WELL for known in facts.ranks.values()):
        doubts = tuple(_doubts(facts))
        return Health((), doubts) if doubts else Health((_ending_text(stated.whole),))
    if facts.world_size is None or not is_world_size_stated(facts):
        return Health((), (say("how many ranks the job has is not known"),))
    shown = {rank: _shown_by(known, facts, stated) for rank, known in facts.ranks.items()}
    open_ranks = [rank for rank in range(facts.world_size) if shown.get(rank) is None]
    if open_ranks:
        return Health((), tuple(_lacking(open_ranks, facts)))
    looks = {_sample_count(facts.ranks[rank]) for rank, how in shown.items() if how == MOVES}
    if len(looks) > 1 or 0 in looks:
        return Health((), (say("some ranks were looked at less often than others"),))
    by_steps = [rank for rank, how in shown.items() if how == STEPS]
    if facts.unread and not set(shown.values()) <= {ENDED, SAID}:
        return Health((), (say("some of what was given could not be read"),))
    if by_steps and not _side_by_side([_loop_of(facts.ranks[rank]) for rank in by_steps]):
        return Health((), (say("the last steps of the ranks differ"),))
    if by_steps and not _all_came_as_far(facts, shown):
        return Health((), (say("the last steps of the ranks differ"),))
    return Health(tuple(_proof(shown)))


def _doubts(facts: Facts) -> Iterable[Text]:
    """What no line explains, and a good end does not either: processes that were started again, errors of torch."""
    restarts = facts.events_where(lambda kind: message_row(kind).says == "restart")
    if any(event.values.get("attempt") != 0 for event in restarts):
        yield say("processes had failed and were started again; no line that was read says why")
    error = next((line for log in facts.logs for line in log.unrecognized_failures if is_cpp_error(line.text)), None)
    if error is not None:
        yield say("torch printed an error that is not known: {line}", line=shortened(error.text.strip(), 120))


def _shown_by(known: RankFacts, facts: Facts, stated: StatedEndings) -> str | None:
    if known.exit is not None and not known.ended_by_recorder:
        return ENDED if known.exit.exit_code == 0 else None
    if known.state in _NOT_WELL:
        return None
    if (told := stated.ranks.get(known.rank)) is not None:
        return SAID if told.words else ENDED
    if known.state is RankState.MISSING:
        return None
    if known.moving or (facts.manifests and _planned(known)):
        return MOVES
    return STEPS if known.moving is None and _stepped_to_the_end(known) else None


def _ending_text(ending: LogEnding) -> Text:
    place = f"{ending.source.path.rsplit('/', 1)[-1]}:{ending.source.line}"
    return say("all ranks ended well, by {place}: {line}", place=place, line=shortened(ending.text.strip(), 120))


def _planned(known: RankFacts) -> bool:
    """It waits where its program says that it will: in a guard, with somebody named."""
    return known.guard_wait is not None and bool(known.guard_wait.ranks)


def _sample_count(known: RankFacts) -> int:
    """How often its stack was seen. Of a bundle that lost a file, what that would tell is not known."""
    stacks = (known.stack, *known.earlier_stacks)
    return sum(any(thread.frames for thread in stack.threads) for stack in stacks if stack is not None)


def _loop_of(known: RankFacts) -> Progress | None:
    """The counter that the rank's log shows last."""
    loops = [p for p in known.progress if not is_preparing(p) and p.last_step > p.first_step]
    return max(loops, key=lambda p: p.last_line, default=None)


def _stepped_to_the_end(known: RankFacts) -> bool:
    loop, last = _loop_of(known), known.last_line
    if loop is None or last is None or last.source.path != loop.source.path or known.last_line_followed:
        return False
    if loop.repeated and not _is_through(loop):
        return False
    return last.source.line == loop.last_line or phase_of_line(last.text) is Phase.SHUTDOWN


def _side_by_side(loops: Iterable[Progress | None]) -> bool:
    """No rank's last step is further behind than the steps between two lines; where one is through, all are."""
    known = [loop for loop in loops if loop is not None]
    last = [loop.last_step for loop in known]
    if len({loop.total for loop in known}) > 1 or len({_is_through(loop) for loop in known}) > 1:
        return False
    return max(last) - min(last) <= max(_interval(loop) for loop in known)


def _all_came_as_far(facts: Facts, shown: Mapping[int, str | None]) -> bool:
    """Where some have ended, those that only step must have come as far: else they wait for who left."""
    if ENDED not in shown.values() and SAID not in shown.values():
        return True
    loops = [_loop_of(facts.ranks[rank]) if rank in facts.ranks else None for rank in shown]
    if None not in loops and len({loop.last_step for loop in loops if loop is not None}) == 1:
        return True
    return all(_is_through(loop) for loop, how in zip(loops, shown.values(), strict=True) if loop and how == STEPS)


def _is_through(loop: Progress) -> bool:
    return loop.total is not None and loop.last_step + 1 >= loop.total


def _interval(loop: Progress) -> int:
    return loop.recent[-1][0] - loop.recent[-2][0] if len(loop.recent) > 1 else 1


def _proof(shown: Mapping[int, str | None]) -> Iterable[Text]:
    ranks = {how: [rank for rank, by in shown.items() if by == how] for how in Counter(shown.values())}
    if ended := ranks.get(ENDED):
        yield say("{ranks:who} ended with exit code 0", ranks=ended)
    if said := ranks.get(SAID):
        yield say("{ranks:who} said that their work was done", ranks=said)
    if moves := ranks.get(MOVES):
        yield say("{ranks:who} moved while the job was looked at", ranks=moves)
    if steps := ranks.get(STEPS):
        yield say("the steps of {ranks:who} advance to the end of what was read", ranks=steps)


def _lacking(ranks: list[int], facts: Facts) -> Iterable[Text]:
    silent = [rank for rank in ranks if rank not in facts.ranks or facts.ranks[rank].state is RankState.MISSING]
    if silent:
        yield say("nothing was read of {ranks:who}", ranks=silent)
    heard = set(ranks) - set(silent)
    others = [rank for rank in ranks if rank in heard]
    if others:
        yield say("of {ranks:who} neither an end nor steps up to the end of what was read were seen", ranks=others)
