"""Take the evidence of one moment into the run folder: dumps, stacks twice, process states, logs, crash reports.

Runs in a short-lived child of the watcher, so that nothing in here can hold the watcher up.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.job import processes
from unhang.watch.sampling import earlier_evidence, exit_evidence, kept_logs
from unhang.watch.sampling.checkpoint_search import BESIDE_A_STALL_S, CheckpointLook
from unhang.watch.verdict.evidence_request import Interrupted, Order, Taken
from unhang.watch.verdict.live_sampling import look
from unhang.watch.verdict.sample_manifest import manifest_of, write_manifest


def take(order: Order, folder: Path) -> Taken:
    """Take the evidence of ``order`` into ``folder`` and write its manifest.

    Raises:
        Interrupted: the job ended meanwhile; the evidence of an earlier look, if any, is back in its place.
    """
    taken = Taken()
    exit_evidence.ended_by_what_they_raised(order.members, folder)
    if order.ended_well:
        taken.taken_s = time.time()
        exit_evidence.keep_exceptions(order.members, order.job_outputs, folder)
        write_manifest(folder, manifest_of(order, taken))
        return taken
    saved = _look_for_checkpoints(order)
    if order.live:
        _look_aside(order, folder, taken)
    else:
        if order.said is not None:
            earlier_evidence.copy_aside(folder)
        shutil.rmtree(folder / "source", ignore_errors=True)
        exit_evidence.drop_earlier_dumps(order.members, folder)
        exit_evidence.keep_last_stands(order.members, folder)
    kept_logs.keep_logs(order.job_outputs, order.members, folder)
    exit_evidence.keep_exceptions(order.members, order.job_outputs, folder)
    _keep_what_was_watched(order, folder)
    if saved is not None:
        _keep(folder, "checkpoints.json", saved.listing(BESIDE_A_STALL_S))
    taken.taken_s, taken.log_bytes = time.time(), kept_logs.sizes(folder) if order.live else {}
    write_manifest(folder, manifest_of(order, taken))
    return taken


def _look_for_checkpoints(order: Order) -> CheckpointLook | None:
    """Begins beside everything else, so that it costs the verdict no time."""
    if not order.command:
        return None
    with suppress(OSError):
        return CheckpointLook.start(command=order.command, cwd=order.cwd, world_size=order.world_size)
    return None


def _look_aside(order: Order, folder: Path, taken: Taken) -> None:
    """Look while the evidence of the look before lies aside, and give it up only for a whole new one."""
    stacks = folder / ".unhang" / "stacks"
    earlier_evidence.lay_dumps_aside(folder)
    ended = (rank for rank, member in order.members.items() if member.ended_ns is not None)
    earlier_evidence.keep_dumps(folder, ended)
    shutil.rmtree(stacks, ignore_errors=True)
    private_files.make_folder(stacks)
    look(order, folder, stacks, taken)
    gone = [rank for rank in taken.states if not _lives(order.members[rank].pid)]
    if gone and (folder / "verdict.json").exists():
        earlier_evidence.restore(folder)
        raise Interrupted(f"rank {gone[0]} ended during the look")
    earlier_evidence.lay_rest_aside(folder)
    stacks.rename(folder / "stacks")


def _lives(pid: int) -> bool:
    seen = processes.look_at(pid)
    return seen is not None and seen.state not in "ZX"


def _keep_what_was_watched(order: Order, folder: Path) -> None:
    watched = {"pace.json": order.pace, "compared.json": order.compared}
    watched["history.json"] = order.earlier
    for name, content in (watched | {"memory.log": order.memory, "kernel.log": order.kernel}).items():
        _keep(folder, name, content)


def _keep(folder: Path, name: str, content: bytes) -> None:
    if content:
        private_files.write(folder / "machine" / name, content)
