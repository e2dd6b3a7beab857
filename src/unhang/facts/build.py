"""Evidence in, facts out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import (
    LogEvent,
    ProcessExit,
    PythonTraceback,
    RecorderDump,
    SourceFile,
    StackDump,
)
from unhang.facts.alignment.group_table import declared_groups, groups_from_recordings, reopen_failed_calls
from unhang.facts.alignment.mismatched_calls import find_mismatches
from unhang.facts.alignment.nonfatal_mismatch import nonfatal_from_comparisons
from unhang.facts.divergence.aborted_in_call import assign_aborted_ranks
from unhang.facts.dump_choice import ChosenDumps, choose_dumps
from unhang.facts.endings.crashes import ended_after_timeouts, is_collateral_exit
from unhang.facts.endings.ended_from_outside import mark_ended_by_launcher
from unhang.facts.endings.first_timeouts import FirstTimeouts
from unhang.facts.endings.traceback_echoes import stack_at_exit, unique_tracebacks
from unhang.facts.fault_isolation import IsolatedSteps
from unhang.facts.logs.progress_from_logs import add_progress_from_logs
from unhang.facts.machine.xids import add_sampled_xids
from unhang.facts.model import Facts, GroupFacts, RankFacts, RankState, WaitForGraph
from unhang.facts.pace.slow_rank_over_time import find_all_slower
from unhang.facts.pace.straggler import find_least_waiting, find_straggler
from unhang.facts.rank_table import assign_ranks_by_process, build_ranks
from unhang.facts.stacks.activity import activity_of
from unhang.facts.waiting.guard_waits import add_guard_waits
from unhang.facts.waiting.pending_call_frames import add_call_frames
from unhang.facts.waiting.positions_from_nodes import add_node_positions, ranks_of_nodes
from unhang.facts.waiting.progress_from_stacks import clear_gone_ranks, reconcile_with_stacks
from unhang.facts.waiting.stalls import find_all_joined_stalls, find_stalls
from unhang.facts.waiting.wait_graph import build_wait_graph
from unhang.facts.world_size import ranks_of_job, world_size_of
from unhang.facts.worlds.role_waits import role_waits
from unhang.findings import Certainty, NotChecked, Unread
from unhang.sentences import say

Ranks = Mapping[int, RankFacts]
Groups = Mapping[str, GroupFacts]
_Told = TypeVar("_Told", LogEvent, ProcessExit, PythonTraceback)
WHICH_RANK = say("which process is which rank")


def build_facts(evidence: EvidenceSet, beside: tuple[str, ...] = (), job: EvidenceSet | None = None) -> Facts:
    """Everything detectors may ask, from whatever was read. The order of the evidence never matters.

    The steps below follow one another: each makes a new value of those before it, and none changes one.
    Never raises for bad evidence: what could not be built is in ``not_checked``, and :class:`MissingFact` where it
    stood. ``beside``: other worlds of the job, which are not in ``evidence``; ``job``: what was read of all of them,
    where this is not all: empty for those that do not tell how parts of the job wait for each other.
    """
    steps = IsolatedSteps()
    made, revised = steps.made, steps.revised
    by_log, by_stack = say("how far each rank came, by its log"), say("how far each rank came, by its stack")

    choice = made(
        say("which of a rank's dumps counts"),
        lambda: choose_dumps(evidence.recorder_dumps),
        ChosenDumps({}, [], [], set()),
    )
    dumps = choice.by_rank
    sources = {source.path: source for source in sorted(evidence.sources, key=lambda s: s.path)}
    raised = assign_ranks_by_process((t for log in evidence.logs for t in log.tracebacks), evidence.manifests)
    tracebacks = _in_time_order(unique_tracebacks(raised))
    ranks: Ranks = made(say("what is known about each rank"), lambda: build_ranks(evidence, dumps, tracebacks), {})
    world_size = made(say("how many ranks the job has"), lambda: world_size_of(evidence, dumps, ranks), None)
    world = ranks_of_job(world_size, ranks)
    by_number = frozenset(world).difference(ranks) if world_size is None else frozenset()
    ranks = revised(say("what ranks do, by their stacks"), _with_activities, ranks, sources)
    ranks = _with_advanced(ranks, choice.advanced_ranks)

    groups: Groups = made(
        say("how far each rank came, by its dump"), lambda: _groups_of_dumps(dumps, world, ranks, evidence), {}
    )
    events: tuple[LogEvent, ...] = made(say("the log lines in order"), lambda: _events(evidence), ())
    by_node = say("how far each rank came, by its watcher")
    ranks = revised(by_node, ranks_of_nodes, ranks, groups, evidence.nodes)
    groups = revised(by_node, add_node_positions, groups, evidence.nodes)
    groups = revised(by_log, add_progress_from_logs, groups, events, world, dumps, by_number)
    groups = revised(say("which calls failed"), reopen_failed_calls, groups, ranks)
    groups = revised(by_stack, reconcile_with_stacks, groups, ranks, world, sources)
    groups = revised(say("who waits in a guard"), add_guard_waits, groups, ranks)
    groups = revised(say("where each rank calls"), add_call_frames, groups, ranks)
    groups = revised(by_stack, clear_gone_ranks, groups, ranks)

    ranks = _with_missing(ranks, world, groups)
    ranks = revised(say("which ranks the launcher ended"), mark_ended_by_launcher, ranks, events)
    ranks = revised(say("how each rank ended"), _with_ends, ranks, FirstTimeouts(evidence.logs))
    graph = made(say("who waits for whom"), lambda: build_wait_graph(groups, ranks))
    failed = any(f.state in (RankState.CRASHED, RankState.ENDED_WITH_OTHERS) for f in ranks.values())
    differ = say("whether ranks call different things")
    mismatches = made(differ, lambda: find_mismatches(groups, dumps, failed=failed))
    mismatches = made(differ, lambda: assign_aborted_ranks(mismatches, groups, ranks, dumps, events))
    ranks = revised(say("the state of each rank"), _with_states, ranks, groups, graph)
    return Facts(
        world_size=world_size,
        ranks=dict(sorted(ranks.items())),
        groups=groups,
        graph=graph,
        mismatches=mismatches,
        all_joined_stalls=made(
            say("whether all wait in one call"), lambda: find_all_joined_stalls(groups, mismatches, world_size)
        ),
        stalls=made(say("who waits for whom"), lambda: find_stalls(graph, groups, ranks)),
        straggler=made(say("which rank is slow"), lambda: find_straggler(groups, ranks, sources, evidence.paces)),
        least_waiting=made(say("which rank is slow"), lambda: find_least_waiting(ranks, sources, evidence.paces), None),
        all_slower=made(say("whether all ranks are slow"), lambda: find_all_slower(evidence.paces)),
        logs=tuple(sorted(evidence.logs, key=lambda log: log.source.path)),
        events=events,
        tracebacks=tracebacks,
        exits=_in_time_order(exit_ for log in evidence.logs for exit_ in log.exits),
        manifests=tuple(sorted(evidence.manifests, key=lambda m: m.source.path)),
        sources=sources,
        unread=tuple(sorted((*evidence.unread, *choice.unread), key=_place_of_unread)),
        inputs=tuple(evidence.inputs),
        unattributed_stacks=_unattributed_stacks(evidence, ranks),
        nonfatal_mismatches=made(
            say("which calls differed without harm"),
            lambda: nonfatal_from_comparisons(evidence.comparisons, evidence.paces),
        ),
        machines=tuple(sorted(evidence.machines, key=lambda m: m.source.path)),
        nodes=tuple(sorted(evidence.nodes, key=lambda n: (n.name, n.source.path))),
        earlier=tuple(sorted(evidence.earlier, key=lambda g: (g.kind, g.name, g.cause))),
        checkpoints=_checkpoints(evidence),
        beside=beside,
        role_waits=made(
            say("which part of the job waits for which"),
            lambda: role_waits(evidence if job is None else job),
            (),
        ),
        not_checked=(*choice.not_checked, *_guessed_ranks(evidence), *steps.failed),
    )


def _guessed_ranks(evidence: EvidenceSet) -> Iterator[NotChecked]:
    if any(process.guessed_rank for manifest in evidence.manifests for process in manifest.processes):
        yield NotChecked(
            WHICH_RANK,
            say("their environment does not say; ranks are numbered in the order they started"),
            caps=Certainty.LIKELY,
        )


def _checkpoints(evidence: EvidenceSet) -> tuple[Checkpoint, ...]:
    """Newest first, each once as it was seen last: by the run, and perhaps by the user now."""
    once = {checkpoint.path: checkpoint for checkpoint in evidence.checkpoints}
    return tuple(sorted(once.values(), key=lambda c: (-c.saved_s, -(c.step or 0), c.path)))


def _unattributed_stacks(evidence: EvidenceSet, ranks: Mapping[int, RankFacts]) -> tuple[StackDump, ...]:
    pids = {facts.pid for facts in ranks.values()} - {None}
    stray = (s for s in evidence.stacks if s.rank is None and s.pid not in pids)
    return tuple(sorted(stray, key=lambda s: (s.source.path, s.source.line or 0)))


# ---------------------------------------------------------------------------------------------------
# steps that are short


def _with_activities(ranks: Ranks, sources: Mapping[str, SourceFile]) -> Ranks:
    return {rank: _with_activity(known, sources) for rank, known in ranks.items()}


def _with_activity(known: RankFacts, sources: Mapping[str, SourceFile]) -> RankFacts:
    stack = known.stack or stack_at_exit(known)
    if stack is None:
        return known
    activity, threads = activity_of(stack, sources)
    return replace(known, activity=activity, threads=threads)


def _with_advanced(ranks: Ranks, advanced: Collection[int]) -> Ranks:
    """A rank that issued new collectives between two dumps moves, even where both samples fell on the same line."""
    return {rank: replace(known, moving=True) if rank in advanced else known for rank, known in ranks.items()}


def _groups_of_dumps(
    dumps: Mapping[int, RecorderDump], world: tuple[int, ...], ranks: Ranks, evidence: EvidenceSet
) -> Groups:
    alive = {rank for rank, known in ranks.items() if known.alive}
    return groups_from_recordings(dumps, world, alive, declared_groups(evidence.manifests))


def _with_missing(ranks: Ranks, world: tuple[int, ...], groups: Groups) -> Ranks:
    """And ranks that stand in any group: they exist, also where nothing tells how many there are."""
    members = set(world).union(*{id(group.members): group.members for group in groups.values()}.values())
    return {**{rank: RankFacts(rank, state=RankState.MISSING) for rank in members}, **ranks}


def _with_ends(ranks: Ranks, timeouts: FirstTimeouts) -> Ranks:
    """States that do not depend on the groups."""
    return {rank: _in_state(known, _state_at_end(known, timeouts)) for rank, known in ranks.items()}


def _state_at_end(known: RankFacts, timeouts: FirstTimeouts) -> RankState:
    if known.exit is None or known.alive:
        return RankState.STOPPED if known.process_state.upper().startswith("T") else known.state
    if known.exit.exit_code == 0:
        return RankState.ENDED
    if is_collateral_exit(known) or ended_after_timeouts(known, timeouts):
        return RankState.ENDED_WITH_OTHERS
    return RankState.CRASHED


def _in_state(known: RankFacts, state: RankState) -> RankFacts:
    return known if known.state is state else replace(known, state=state)


def _with_states(ranks: Ranks, groups: Groups, graph: WaitForGraph) -> Ranks:
    waiting = {rank for group in groups.values() for rank in group.pending_calls}
    roots = set(graph.roots)
    return {rank: _in_state(known, _state_among_others(known, roots, waiting)) for rank, known in ranks.items()}


def _state_among_others(known: RankFacts, roots: Collection[int], waiting: Collection[int]) -> RankState:
    if known.state is not RankState.UNKNOWN:
        return known.state
    if known.rank in roots:
        return RankState.LAGGARD
    if known.rank in waiting:
        return RankState.WAITING
    seen = known.stack is not None or known.recording is not None or known.progress
    return RankState.RUNNING if seen else RankState.UNKNOWN


def _place_of_unread(unread: Unread) -> tuple[str, int, int, str]:
    return (unread.source.path, unread.source.line or 0, unread.source.byte or 0, unread.reason)


def _in_time_order(told: Iterable[_Told]) -> tuple[_Told, ...]:
    """By attempt, then time where known; what is undated keeps the place of its file."""
    return tuple(
        sorted(
            told,
            key=lambda one: (
                one.attempt,
                one.time_s if one.time_s is not None else float("inf"),
                one.source.path,
                one.source.line or 0,
            ),
        )
    )


def _events(evidence: EvidenceSet) -> tuple[LogEvent, ...]:
    events = [event for log in evidence.logs for event in log.events]
    return _in_time_order(add_sampled_xids(events, evidence.machines))
