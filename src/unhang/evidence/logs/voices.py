"""Who is which rank: what prefixes and NCCL lines of one log tell about it, resolved when the log is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unhang.evidence.logs.prefixes import NOBODY, Speaker


class Voices:
    """Learns (label, local rank, process) → rank; ``rank_of`` answers once the log is read."""

    def __init__(self, file_rank: int | None) -> None:
        self._file_rank = file_rank
        self._labels: dict[int, set[int]] = {}
        self._tees: dict[tuple[str | None, int | None, int], set[int]] = {}
        self._processes: dict[tuple[str, int], tuple[int, int]] = {}
        self._teed_labels: set[int] = set()
        self._world = 0
        self.heard: set[int] = set()

    def learn(self, speaker: Speaker, rank: int | None) -> None:
        """A line of ``speaker`` told its ``rank`` outright."""
        if rank is not None:
            self.heard.add(rank)
        if speaker is NOBODY:
            return
        if speaker.tee is not None:
            known = self._tees.setdefault((speaker.host, speaker.label, speaker.tee), set())
            if rank is not None and len(known) < 4:
                known.add(rank)
            if speaker.label is not None:
                self._teed_labels.add(speaker.label)
        elif speaker.label is not None:
            known = self._labels.setdefault(speaker.label, set())
            if rank is not None and len(known) < 4:
                known.add(rank)

    def learn_process(self, host: str, pid: int, comm_rank: int, comm_size: int) -> None:
        """NCCL said which rank of which size of communicator a process is; the largest one is the world."""
        best = self._processes.get((host, pid))
        if best is None or comm_size > best[1]:
            self._processes[host, pid] = (comm_rank, comm_size)
            self._world = max(self._world, comm_size)

    def rank_of(self, speaker: Speaker, told: Mapping[str, Any]) -> int | None:
        """The global rank behind a line. ``told`` is what ``origin_of`` found inside it."""
        rank = told.get("rank", speaker.rank)
        if rank is not None:
            return int(rank)
        if self._file_rank is not None:
            return self._file_rank
        known = self._processes.get((told["nccl_host"], told["nccl_pid"])) if "nccl_pid" in told else None
        if known is not None and known[1] == self._world:
            return known[0]
        rank = self._speaker_rank(speaker)
        if rank is not None:
            return rank
        return self._group_rank(told)

    def process_rank(self, pid: int, host: str | None) -> int | None:
        """Rank of a process that NCCL lines told about."""
        found = {
            rank for (name, number), (rank, _) in self._processes.items() if number == pid and host in (None, name)
        }
        return found.pop() if len(found) == 1 else None

    def _speaker_rank(self, speaker: Speaker) -> int | None:
        if speaker.tee is not None:
            known = self._tees.get((speaker.host, speaker.label, speaker.tee), set())
            if known:
                return next(iter(known)) if len(known) == 1 else None
            several = speaker.label is not None or speaker.host is not None
            return None if several else speaker.tee
        if speaker.label is not None and not self._labels_are_nodes():
            return speaker.label
        if speaker.label is not None:
            known = self._labels.get(speaker.label, set())
            return next(iter(known)) if len(known) == 1 else None
        return None

    def _labels_are_nodes(self) -> bool:
        if self._teed_labels:
            return True
        return any(ranks - {label} for label, ranks in self._labels.items())

    @staticmethod
    def _group_rank(told: Mapping[str, Any]) -> int | None:
        if "group_rank" not in told:
            return None
        description = told.get("group_description", "")
        default = description.startswith("default") or (not description and told.get("group", "0") in ("0", ""))
        return int(told["group_rank"]) if default else None
