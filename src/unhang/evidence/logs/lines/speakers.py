"""Who is which rank: what prefixes and NCCL lines of one log tell about it, resolved when the log is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeVar

from unhang.evidence.items import LogEvent, Progress
from unhang.evidence.logs.lines.parallel_places import ParallelPlaces
from unhang.evidence.logs.lines.prefixes import UNKNOWN_SPEAKER, Speaker
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

_RANK = re.compile(r"(?<![\w-])(?:(?:global|world)[_ -]?)?rank[ :=#]{0,3}(\d{1,6})\b(?! ?/)", re.IGNORECASE)
_ASSIGNED = late_pattern(r"\brank (\d{1,6}) in world size \d+ is assigned as ")
"""vLLM's worker says where it stands (vllm/distributed/parallel_state.py)."""
_PID = re.compile(r"(?<![\w-])pid[ :=#]{0,3}(\d{1,10})\b", re.IGNORECASE)
_MAX_KNOWN = 65_536
"""Labels and processes, each."""
_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
_Ranked = TypeVar("_Ranked", LogEvent, Progress)
Spoken = tuple[_Item, Speaker, Mapping[str, Any]]
"""An item, who printed it, and what its line tells of that: its rank is known when all lines were read."""
_FEW_LABELS = 4
"""Ranks kept of one label or process: two are already too many to be one."""


class SpeakerRanks:
    """Maps label, local rank, pid or name of a line's prefix to its global rank, learned over the whole log."""

    def __init__(self, file_rank: int | None, sizes: AbstractSet[int] = frozenset()) -> None:
        """``sizes`` will hold how many ranks the job has, as far as its lines tell."""
        self._file_rank = file_rank
        self._sizes = sizes
        self._labels: dict[int, set[int]] = {}
        self._tees: dict[tuple[str | None, int | None, int], set[int]] = {}
        self._processes: dict[tuple[str, int], tuple[int, int]] = {}
        self._teed_labels: set[int] = set()
        self._names: dict[str, set[int]] = {}
        self._pids: dict[int, set[int]] = {}
        self._named_themselves: set[int] = set()
        self.places = ParallelPlaces()
        self.programs: dict[int, str] = {}
        """What each process runs, by pid, as its lines call it."""
        self._world = 0
        self.heard: set[int] = set()

    def learn(self, speaker: Speaker, rank: int | None) -> None:
        """A line of ``speaker`` told its ``rank`` outright."""
        if rank is not None:
            self.heard.add(rank)
        if speaker is UNKNOWN_SPEAKER:
            return
        if speaker.tee is not None:
            self._learn(self._tees, (speaker.host, speaker.label, speaker.tee), rank)
            if speaker.label is not None:
                self._teed_labels.add(speaker.label)
        elif speaker.label is not None:
            self._learn(self._labels, speaker.label, rank)
        if speaker.name is not None:
            self._learn(self._names, speaker.name, rank)
        if speaker.pid is not None and rank is not None:
            self._learn(self._pids, speaker.pid, rank)
        if speaker.program is not None:
            self.places.add(speaker.program)
            if speaker.pid is not None and len(self.programs) < _MAX_KNOWN:
                self.programs[speaker.pid] = speaker.program

    def learn_spoken(self, speaker: Speaker, rank: int) -> None:
        """A line of ``speaker`` names the rank that printed it."""
        self._named_themselves.add(rank)
        if speaker.pid is not None:
            self._learn(self._pids, speaker.pid, rank)

    def learn_named(self, speaker: Speaker, text: str) -> None:
        """A line that names one rank ties it to the one process it names (``Rank 1 … Pid 118830``), and to the label
        before it."""
        ranks = _ASSIGNED.findall(text) or _RANK.findall(text)
        rank = numbers.rank(ranks[0]) if len(ranks) == 1 else None
        if rank is None:
            return
        pids = _PID.findall(text)
        if len(pids) == 1 and (pid := numbers.integer(pids[0])) is not None:
            self._learn(self._pids, pid, rank)
        elif speaker.pid is not None and _ASSIGNED.search(text) is not None:
            self._learn(self._pids, speaker.pid, rank)
        if speaker.name is not None:
            self._learn(self._names, speaker.name, rank)

    @staticmethod
    def _learn(known: dict[_Key, set[int]], key: _Key, rank: int | None) -> None:
        if key not in known and len(known) >= _MAX_KNOWN:
            return
        ranks = known.setdefault(key, set())
        if rank is not None and len(ranks) < _FEW_LABELS:
            ranks.add(rank)

    def learn_process(self, host: str, pid: int, comm_rank: int, comm_size: int) -> None:
        """NCCL said which rank of which size of communicator a process is; the largest one is the world."""
        if comm_rank >= comm_size:
            return  # a damaged line
        best = self._processes.get((host, pid))
        if best is None or comm_size > best[1]:
            self._processes[host, pid] = (comm_rank, comm_size)
            self._world = max(self._world, comm_size)

    def resolved(self, spoken: Iterable[Spoken[_Ranked]]) -> Iterator[_Ranked]:
        """The items, each with the rank of who printed it."""
        for item, speaker, told in spoken:
            rank = self.rank_of(speaker, told)
            yield item if rank == item.rank else replace(item, rank=rank)

    def rank_of(self, speaker: Speaker, told: Mapping[str, Any]) -> int | None:
        """The global rank behind a line. ``told`` is what ``origin_of`` found inside it."""
        rank: int | None = told.get("rank", speaker.rank)
        if rank is not None:
            return rank
        if self._file_rank is not None:
            return self._file_rank
        known = self._processes.get((told["nccl_host"], told["nccl_pid"])) if "nccl_pid" in told else None
        if known is not None and known[1] == self._world:
            return known[0]
        rank = self._only(self._pids.get(told.get("nccl_pid", -1)))
        if rank is None:
            rank = self._speaker_rank(speaker)
        if rank is not None:
            return rank
        return self._group_rank(told)

    def process_rank(self, pid: int, host: str | None) -> int | None:
        """Rank of a process that NCCL lines told about."""
        found = {
            rank for (name, number), (rank, _) in self._processes.items() if number == pid and host in (None, name)
        }
        return found.pop() if len(found) == 1 else self._only(self._pids.get(pid))

    def rank_of_title(self, pid: int | None, title: str) -> int | None:
        """Rank of a process of which only its number and its title are known (``VLLM::Worker_TP1``)."""
        known = self.process_rank(pid, None) if pid is not None else None
        program = title.rpartition("::")[2] or self.programs.get(pid if pid is not None else -1, "")
        return known if known is not None else self.places.rank_of(program)

    @staticmethod
    def _only(ranks: set[int] | None) -> int | None:
        return next(iter(ranks)) if ranks is not None and len(ranks) == 1 else None

    def _speaker_rank(self, speaker: Speaker) -> int | None:
        if speaker.tee is not None:
            known = self._tees.get((speaker.host, speaker.label, speaker.tee), set())
            if known:
                return next(iter(known)) if len(known) == 1 else None
            several = speaker.label is not None or speaker.host is not None
            return None if several else speaker.tee
        if speaker.label is not None:
            return self._only(self._labels.get(speaker.label)) if self.labels_are_nodes() else speaker.label
        if speaker.pid is not None and (rank := self._only(self._pids.get(speaker.pid))) is not None:
            return rank
        if speaker.name is not None:
            return self._rank_of_name(speaker.name)
        return self.places.rank_of(speaker.program) if speaker.program is not None else None

    def _rank_of_name(self, name: str) -> int | None:
        """The rank that lines of ``name`` name; where the labels may be those of nodes, on which only some of the
        processes say who they are, it is nobody's."""
        if len(self._names) not in self._sizes and not self._all_named():
            return self._by_number(name)
        rank = self._only(self._names.get(name))
        return rank if sum(rank in ranks for ranks in self._names.values()) == 1 else None

    def _all_named(self) -> bool:
        """Whether each label has its rank, and no rank is left without one."""
        return all(len(ranks) == 1 and max(ranks) < len(self._names) for ranks in self._names.values())

    def _by_number(self, name: str) -> int | None:
        """The number in ``name``, where names and ranks are as many: those the log counts, or that name themselves."""
        numbered = {known: numbers.rank(re.sub(r"\D", "", known)) for known in self._names}
        counted = [set(range(size)) for size in self._sizes] + [self._named_themselves]
        return numbered[name] if not any(self._names.values()) and {*numbered.values()} in counted else None

    def labels_are_nodes(self) -> bool:
        """Whether the numbers of labels and tasks are those of launchers: each has, or there are, more ranks."""
        if self._teed_labels or (self._labels and len(self._named_themselves) > len(self._labels)):
            return True
        return any(ranks - {label} for label, ranks in self._labels.items())

    @staticmethod
    def _group_rank(told: Mapping[str, Any]) -> int | None:
        if "group_rank" not in told:
            return None
        description = told.get("group_description", "")
        default = description.startswith("default") or (not description and told.get("group", "0") in ("0", ""))
        return int(told["group_rank"]) if default else None
