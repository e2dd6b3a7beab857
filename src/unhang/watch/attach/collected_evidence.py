"""What was seen of a job that was attached to, before anything is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch.attach.rank_selection import RankSelection
from unhang.watch.attach.sources import nccl_ras as ras
from unhang.watch.process_state.proc_processes import Process, has_mapped
from unhang.watch.process_state.stack_collection import ProcessSample


@dataclass(slots=True)
class CollectedEvidence:
    """What sampling a job gave. ``samples`` by pid, oldest first."""

    folder: Path
    chosen: RankSelection
    samples: dict[int, list[ProcessSample]] = field(default_factory=dict)
    workers: dict[int, tuple[Process, ...]] = field(default_factory=dict)
    moving: dict[int, bool] = field(default_factory=dict)
    dumps: set[int] = field(default_factory=set)
    ras: tuple[ras.RasReport, ...] = ()
    taken_s: float = 0.0

    @property
    def world_size(self) -> int | None:
        """Ranks of the whole job, also those on other machines."""
        return max((rank.world_size for rank in self.chosen.ranks if rank.world_size is not None), default=None)

    @property
    def uses_cards(self) -> bool:
        """A collective of this job may wait on a GPU, where the thread spins."""
        return any(has_mapped(r.pid, "libcuda.so") or has_mapped(r.pid, "libamdhip") for r in self.chosen.ranks)

    def states(self) -> dict[int, str]:
        """Last ``/proc`` state of each rank's main thread."""
        return {r.rank: self.samples[r.pid][-1].kernel.state for r in self.chosen.ranks if self.samples.get(r.pid)}

    def refused(self) -> dict[int, str]:
        """Ranks without a single stack, and why."""
        seen = {r.rank: self.samples.get(r.pid, []) for r in self.chosen.ranks}
        return {
            rank: samples[-1].refused
            for rank, samples in seen.items()
            if samples and not any(sample.stack for sample in samples)
        }
