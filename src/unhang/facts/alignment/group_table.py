"""Groups and how far each rank has come in them, from flight-recorder dumps.

A rank's oldest unfinished collective is its *pending* call. NCCL dumps say it per entry and per group; Gloo's say
only that a call was made, so there the group status decides and the stack may contradict it later. Calls that Gloo
counts as finished because they failed are reopened: a rank that timed out in a call never finished it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace

from unhang.evidence.items import Frame, GroupStatus, PythonTraceback, RecorderDump, RecorderEntries, Signature
from unhang.facts.alignment.entry_slices import split_by_group, unfinished_rows
from unhang.facts.alignment.group_status import statuses_by_group
from unhang.facts.collective_operations import canonical_operation
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.model import GroupFacts, GroupProgress, PendingCall, RankFacts
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Source
from unhang.sentences import rank_ranges
from unhang.wire.documents.bundle import BundleManifest

DEFAULT_DESCRIPTIONS = ("default_pg",)


DeclaredGroups = Mapping[str, tuple[int, frozenset[int]]]
"""What the ranks' own records tell of a group: how many members it has, and which ranks say that they are members."""


def declared_groups(manifests: Iterable[BundleManifest]) -> DeclaredGroups:
    """The groups of all ranks; one of which ranks say different sizes goes by the largest."""
    sizes: dict[str, int] = defaultdict(int)
    members: dict[str, set[int]] = defaultdict(set)
    for process in (process for manifest in manifests for process in manifest.processes):
        for name, size in process.groups.items():
            sizes[name] = max(sizes[name], size)
            members[name].add(process.rank)
    return {name: (size, frozenset(members[name])) for name, size in sizes.items()}


def groups_from_recordings(
    recordings: Mapping[int, RecorderDump],
    world: tuple[int, ...],
    alive: Container[int],
    told: DeclaredGroups | None = None,
) -> dict[str, GroupFacts]:
    """All groups that the dumps know, by key, with the progress of each rank; ``alive``: ranks that did not fail."""
    keys = _group_keys(recordings)
    statuses = {
        rank: {keys[rank].get(name, name): status for name, status in named.items()}
        for rank, named in statuses_by_group(recordings).items()
    }
    parts = {
        rank: {keys[rank].get(name, name): cut for name, cut in split_by_group(recording.entries).items()}
        for rank, recording in recordings.items()
    }
    groups = _declare_groups(recordings, keys, parts, statuses, world)
    p2p_groups = {name for by_group in parts.values() for name, (_, p2p) in by_group.items() if len(p2p)}
    p2p_groups |= _gloo_counts_p2p(recordings, parts, statuses)
    found = {}
    for name, declared in groups.items():
        group = declared
        if told is not None and name in told:
            group = _with_silent_members(group, *told[name], world)
        recorded = {r: parts[r][name] for r in group.members if r in recordings and name in parts[r]}
        group = replace(
            group,
            entries={rank: collectives for rank, (collectives, _) in recorded.items() if len(collectives)},
            p2p={rank: p2p for rank, (_, p2p) in recorded.items() if len(p2p)},
        )
        progress = {
            rank: known
            for rank in group.members
            if rank in recordings
            for known in [_progress(rank, group, recordings[rank], statuses[rank].get(name), mixed=name in p2p_groups)]
            if known is not None
        }
        found[name] = _correct_gloo_progress(group.with_progress(progress), recordings, alive)
    return found


def revise_progress(
    groups: Mapping[str, GroupFacts], revised: Callable[[GroupFacts, GroupProgress], GroupProgress]
) -> dict[str, GroupFacts]:
    """``groups`` with the progress of each rank as ``revised`` has it."""
    return {
        name: replace(group, progress={rank: revised(group, known) for rank, known in group.progress.items()})
        for name, group in groups.items()
    }


def _with_silent_members(group: GroupFacts, size: int, members: frozenset[int], world: tuple[int, ...]) -> GroupFacts:
    """Who has not come yet recorded nothing in the group; that it is a member stands in its own record."""
    named = set(world) if size == len(world) else members | set(group.members)
    if group.members_known or len(named) > size:  # more: two groups of one name
        return replace(group, size=size)
    return replace(group, size=size, members=tuple(sorted(named)), members_known=len(named) == size)


def _gloo_counts_p2p(
    recordings: Mapping[int, RecorderDump],
    parts: Mapping[int, Mapping[str, tuple[RecorderEntries, RecorderEntries]]],
    statuses: Mapping[int, Mapping[str, tuple[GroupStatus, bool]]],
) -> set[str]:
    """Groups in which Gloo has counted more calls than it has recorded: sends and receives, which it never records."""
    found = set()
    for rank, by_group in parts.items():
        for name, (collectives, _) in by_group.items() if recordings[rank].backend == "gloo" else ():
            status = statuses[rank].get(name)
            if status is not None and len(collectives) and status[0].last_enqueued > int(collectives.position[-1]):
                found.add(name)
    return found


def _correct_gloo_progress(
    group: GroupFacts, recordings: Mapping[int, RecorderDump], alive: Container[int]
) -> GroupFacts:
    """Gloo's own count of finished collectives lags and goes back. What one member has finished, and all have
    entered, is finished for all. Ranks that failed count the failed collective as finished: theirs is not used."""
    counted = {r: p for r, p in group.progress.items() if recordings[r].backend == "gloo" and r in group.entries}
    if len(counted) != len(group.members):
        return group
    finished = max((p.completed for r, p in counted.items() if r in alive), default=-1)
    floor = min(finished, *(p.enqueued for p in counted.values()))
    floor = _last_agreed_position(group, min(p.completed for p in counted.values()), floor)
    lifted = {
        rank: replace(
            known,
            completed=floor,
            pending=_pending(rank, group, group.entries[rank], recordings[rank], known.enqueued, floor),
        )
        for rank, known in counted.items()
        if known.completed < floor
    }
    return replace(group, progress={**group.progress, **lifted})


_FARTHEST_LIFT = 1000
_STATES = ("scheduled", "started", "completed")


def _last_agreed_position(group: GroupFacts, low: int, high: int) -> int:
    """The last position of ``low .. high`` before members called different operations: that one is finished for
    nobody else when one member is through it."""
    if high - low > _FARTHEST_LIFT:
        return high
    called: dict[int, str] = {}
    apart = high + 1
    for entries in group.entries.values():
        for index in ((entries.position > low) & (entries.position <= high)).nonzero()[0].tolist():
            position = int(entries.position[index])
            operation = canonical_operation(entries.signatures[int(entries.signature[index])].operation)
            if called.setdefault(position, operation) != operation:
                apart = min(apart, position)
    return apart - 1


def _group_keys(recordings: Mapping[int, RecorderDump]) -> dict[int, dict[str, str]]:
    """Rank → (name → key). The key is the name, unless ranks use one name for different groups (split_group,
    local synchronisation): then the members tell them apart."""
    memberships: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for recording in recordings.values():
        for config in recording.groups.values():
            if config.ranks:
                memberships[config.name].add(config.ranks)
    shared = {name for name, found in memberships.items() if len(found) > 1}
    return {
        rank: {
            config.name: f"{config.name} [{rank_ranges(config.ranks)}]"
            for config in recording.groups.values()
            if config.name in shared and config.ranks
        }
        for rank, recording in recordings.items()
    }


def _declare_groups(
    recordings: Mapping[int, RecorderDump],
    keys: Mapping[int, Mapping[str, str]],
    parts: Mapping[int, Mapping[str, tuple[RecorderEntries, RecorderEntries]]],
    statuses: Mapping[int, Mapping[str, tuple[GroupStatus, bool]]],
    world: tuple[int, ...],
) -> dict[str, GroupFacts]:
    members: dict[str, set[int]] = defaultdict(set)
    known: dict[str, tuple[int, ...]] = {}
    descriptions: dict[str, str] = {}
    for rank, recording in sorted(recordings.items()):
        for name, description in recording.entries.group_names:
            descriptions.setdefault(keys[rank].get(name, name), description)
        for key in (*parts[rank], *statuses[rank]):
            members[key].add(rank)
        for config in recording.groups.values():
            if config.ranks is not None and config.name:
                key = keys[rank].get(config.name, config.name)
                known.setdefault(key, config.ranks)
                descriptions.setdefault(key, config.description)
    groups = {}
    for key in sorted(set(members) | set(known)):
        is_default = descriptions.get(key, "") in DEFAULT_DESCRIPTIONS or (key == "0" and key not in known)
        ranks = known.get(key) or (world if is_default and world else tuple(sorted(members[key])))
        groups[key] = GroupFacts(
            name=key,
            description=descriptions.get(key, ""),
            members=tuple(sorted(ranks)),
            members_known=key in known or is_default,
            is_default=is_default,
        )
    return groups


def _progress(
    rank: int, group: GroupFacts, recording: RecorderDump, status: tuple[GroupStatus, bool] | None, *, mixed: bool
) -> GroupProgress | None:
    """Progress of ``rank`` in ``group``; None when its dump says nothing about it.

    ``mixed``: the group also does P2P, whose numbers the status then counts instead of collectives.
    """
    entries = group.entries.get(rank)
    if entries is None and rank not in group.p2p and status is None:
        return _progress_if_unused(rank, recording)
    enqueued, completed, source_kind, inferred = -1, -1, "dump", False
    gap = 0
    if status is not None:
        numbers, inferred = status
        gap = max(numbers.last_enqueued - max(numbers.last_completed, -1), 0)
        if not mixed:
            enqueued, completed, source_kind = numbers.last_enqueued, numbers.last_completed, "status"
    if entries is not None:
        enqueued = max(enqueued, int(entries.position[-1]))
        completed = max(completed, _completed_by_entries(entries, recording.backend, status is not None, gap))
    pending = _pending(rank, group, entries, recording, enqueued, completed)
    return GroupProgress(rank, enqueued, completed, pending, source_kind, inferred)


def _progress_if_unused(rank: int, recording: RecorderDump) -> GroupProgress | None:
    """A dump that records other groups but not this one, or lists its groups and no call in any: this rank has never
    called anything in it. Sends and receives over Gloo are in no dump."""
    if not recording.status and not (recording.whole and (len(recording.entries) or recording.groups)):
        return None
    if not recording.status and recording.only_active:
        return None
    return GroupProgress(rank, -1, -1, None, "dump", inferred=bool(recording.status))


def _completed_by_entries(entries: RecorderEntries, backend: str, has_status: bool, gap: int) -> int:
    if backend == "gloo":
        # Entries never say that they finished. The status' numbers may count P2P too, its distance does not lie.
        return int(entries.position[-1]) - gap if has_status else -1
    done = ~unfinished_rows(entries)
    if not done.all():
        # Finished without being discovered: what lies before the oldest entry that is still listed has completed.
        first_open = int(entries.position[int(done.argmin())])
        best = int(entries.position[done].max()) if done.any() else -1
        return max(best, first_open - 1) if best < first_open else best
    return int(entries.position[-1])


def _pending(
    rank: int,
    group: GroupFacts,
    entries: RecorderEntries | None,
    recording: RecorderDump,
    enqueued: int,
    completed: int,
) -> PendingCall | None:
    if entries is not None:
        open_rows = (unfinished_rows(entries) & (entries.position > completed)).nonzero()[0]
        if len(open_rows):
            return recorded_call(rank, group.name, entries, int(open_rows[0]), recording.source)
    p2p = group.p2p.get(rank)
    if p2p is not None and recording.backend != "gloo":
        open_rows = (unfinished_rows(p2p) & ~p2p.retired).nonzero()[0]
        if len(open_rows):
            return recorded_call(rank, group.name, p2p, int(open_rows[0]), recording.source)
    if enqueued > completed >= -1 and entries is None and p2p is None:
        # Only the status speaks (the recorder was off): position known, operation not.
        return PendingCall(group.name, completed + 1, None, "", Evidence(recording.source, "", rank))
    return None


def recorded_call(rank: int, group: str, entries: RecorderEntries, row: int, source: Source) -> PendingCall:
    """The call recorded in one row of ``entries``."""
    signature = entries.signatures[int(entries.signature[row])]
    stack: tuple[Frame, ...] = entries.stacks[int(entries.stack[row])] if int(entries.stack[row]) >= 0 else ()
    created = int(entries.created_ns[row])
    timeout = int(entries.timeout_ms[row])
    byte = int(entries.byte[row])
    position = int(entries.position[row])
    text = f"{signature.operation} #{position} {_STATES[int(entries.state[row])]} in group {group}"
    evidence = Evidence(Source(source.path, byte=byte if byte >= 0 else None), text, rank)
    return replace(
        signed_call(group, position, signature, stack, evidence),
        since_s=created / 1e9 if created > 0 else None,
        timeout_ms=timeout if timeout >= 0 else None,
    )


def signed_call(
    group: str, position: int, signature: Signature, stack: tuple[Frame, ...], evidence: Evidence
) -> PendingCall:
    """A call of which everything is known that ranks must share."""
    return PendingCall(
        group=group,
        position=position,
        signature=signature,
        operation=canonical_operation(signature.operation),
        evidence=evidence,
        elements=signature.input_elements,
        dtype=next(iter(signature.input_dtypes), None),
        where=first_user_frame(stack),
        stack=stack,
        output_elements=signature.output_elements,
    )


def reopen_failed_calls(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> dict[str, GroupFacts]:
    """The last recorded call of a rank is its pending one where its timeout or lost partner was raised at that line."""
    return revise_progress(groups, lambda group, progress: _reopened(group, progress, ranks.get(progress.rank)))


def _reopened(group: GroupFacts, progress: GroupProgress, known: RankFacts | None) -> GroupProgress:
    entries = group.entries.get(progress.rank)
    if known is None or known.recording is None or known.recording.backend != "gloo" or entries is None:
        return progress
    if progress.pending is not None or not any(_raised_in(t, entries) for t in known.tracebacks):
        return progress
    return replace(
        progress,
        pending=recorded_call(progress.rank, group.name, entries, -1, known.recording.source),
        completed=min(progress.completed, int(entries.position[-1]) - 1),
    )


def _raised_in(traceback: PythonTraceback, entries: RecorderEntries) -> bool:
    if not len(entries) or not is_echo(traceback):
        return False
    if int(entries.stack[-1]) < 0:
        return _names_the_call(traceback, entries)
    raised = first_user_frame(traceback.frames)
    called = first_user_frame(entries.stacks[int(entries.stack[-1])])
    return raised is not None and called is not None and (raised.file, raised.line) == (called.file, called.line)


def _names_the_call(traceback: PythonTraceback, entries: RecorderEntries) -> bool:
    """A dump without frames: the failed call of torch.distributed is of the operation that was recorded last."""
    last = canonical_operation(entries.signatures[int(entries.signature[-1])].operation)
    return any(
        "torch/distributed/" in frame.file and canonical_operation(frame.function) == last for frame in traceback.frames
    )
