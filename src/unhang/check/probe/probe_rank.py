"""One rank of a probe: it does the steps of its island one after the other and says how each went.

It lives in a forked process, is watched from outside, and never goes on after a failure: what comes after a broken
collective means nothing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from unhang.check.probe.probe_jobs import ProbeJob, StepReport
from unhang.check.probe_results.probe_results import ProbeStep

MAX_CALLS = 20
FIRST_CALLS = 3
MIN_TELLING_SIZE = 64 << 10
BUDGET_S = 0.25
"""Timed calls of one step take about this long together."""
_NO_SUCH = ("not support", "unsupported", "not implemented", "not been implemented", "no backend type")
_LAST_WORD_S = 1.0
_WIDTH = 4  # float32


@dataclass(slots=True)
class ProbeRank:
    """This rank of ``job``; ``store`` is where its island meets, ``report`` takes what it says."""

    job: ProbeJob
    rank: int
    local_rank: int
    store: Any
    report: Callable[[StepReport], None]
    _island: tuple[int, ...] = ()
    _device: Any = None
    _groups: dict[tuple[int, ...], Any] = field(default_factory=dict)
    _pace: dict[tuple[str, str], tuple[int, float | None]] = field(default_factory=dict)

    def work(self) -> None:
        """Every step of this rank, up to the first that fails."""
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        self._island = next(island for island in self.job.islands if self.rank in island)
        for number, step in enumerate(self.job.steps):
            members = next((group for group in step.groups if self.rank in group), None)
            joins = members is not None or (step.operation == "connect" and len(step.groups) > 0)
            if not joins:
                continue
            self.report(StepReport(self.rank, number, begun=True))
            try:
                line = self._do(number, step, members or ())
            except Exception as error:  # noqa: BLE001 - whatever a backend throws is the answer
                self.report(StepReport(self.rank, number, error=_sentence(error)))
                return
            self.report(line)
        self._leave_together()

    def _do(self, number: int, step: ProbeStep, members: tuple[int, ...]) -> StepReport:
        if step.operation == "connect":
            return self._connect(number, step)
        key = (step.operation, step.scope)
        size, pace = self._pace.get(key) or self._pace.get(("all-reduce", step.scope), (0, None))
        if key in self._pace and pace is None:
            return StepReport(self.rank, number, left_out=True)
        # What small messages take says nothing about large ones.
        expected = pace * max(1.0, step.size / size) if pace is not None and size >= MIN_TELLING_SIZE else 0.0
        if expected * 3 > self.job.limit_s:
            return StepReport(self.rank, number, left_out=True)
        group, places = self._group(step, members)
        try:
            operation = prepare_operation(
                step.operation, group, places, members.index(self.rank), step.size, self._device
            )
            operation.clear()
            self._wait(operation.start())
        except RuntimeError as error:
            if not any(word in str(error).lower() for word in _NO_SUCH):
                raise
            self._pace[key] = (step.size, None)
            return StepReport(self.rank, number, unsupported=_sentence(error))
        right = operation.right()
        taken = self._timed(operation, expected)
        slowest = self._slowest(taken, group) if step.operation != "pair" else taken
        if step.operation != "pair":
            self._pace[key] = (step.size, slowest)
        return StepReport(self.rank, number, call_s=slowest, wrong=not (right and operation.right()))

    def _connect(self, number: int, step: ProbeStep) -> StepReport:
        device = ""
        if not dist.is_initialized():
            if self.job.backend == "nccl":
                torch.cuda.set_device(self.local_rank % torch.cuda.device_count())
                device = torch.cuda.get_device_name()
            self._device = torch.device("cuda" if self.job.backend == "nccl" else "cpu")
            dist.init_process_group(
                self.job.backend,
                store=self.store,
                rank=self._island.index(self.rank),
                world_size=len(self._island),
                timeout=self._limit(),
            )
        else:
            for members in step.groups:
                made = dist.new_group([self._island.index(rank) for rank in members], timeout=self._limit())
                if self.rank in members:
                    self._groups[members] = made
        members = next(group for group in step.groups if self.rank in group)
        group, places = self._group(step, members)
        # The first collective is what connects: NCCL makes its communicator there.
        probe = prepare_operation("all-reduce", group, places, members.index(self.rank), 16, self._device)
        self._wait(probe.start())
        return StepReport(self.rank, number, wrong=not probe.right(), device=device)

    def _group(self, step: ProbeStep, members: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
        """The group of torch, and its members as ranks of the island."""
        places = tuple(self._island.index(rank) for rank in members)
        return (None if step.operation == "pair" else self._groups.get(members)), places

    def _timed(self, operation: PreparedOperation, expected: float) -> float:
        """Seconds of one call. How many are timed follows from the size before, which all ranks know alike."""
        calls = FIRST_CALLS if not expected else max(1, min(MAX_CALLS, int(BUDGET_S / expected)))
        started = time.perf_counter()
        for _ in range(calls):
            self._wait(operation.start())
        return (time.perf_counter() - started) / calls

    def _slowest(self, taken: float, group: Any) -> float:
        """The largest of all members, so that all of them decide alike about the next size."""
        own = torch.tensor([taken], dtype=torch.float64, device=self._device)
        self._wait([dist.all_reduce(own, op=dist.ReduceOp.MAX, group=group, async_op=True)])
        return float(own.item())

    def _wait(self, works: list[Any]) -> None:
        """Until all are done. A work of NCCL is asked, since waiting for it would only wait on the device's queue."""
        if self.job.backend != "nccl":
            for work in works:
                work.wait(self._limit())
            return
        deadline = time.monotonic() + self.job.limit_s
        while not all(work.is_completed() for work in works):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not finished after {self.job.limit_s:.0f} s")
        for work in works:
            work.wait()

    def _limit(self) -> timedelta:
        """For the backend. NCCL's watchdog would end the process at it, before we have said what we saw."""
        return timedelta(seconds=self.job.limit_s * (2 if self.job.backend == "nccl" else 1))

    def _leave_together(self) -> None:
        """A rank that ends early closes connections in which others may still be busy."""
        deadline = time.monotonic() + _LAST_WORD_S
        try:
            here = self.store.add("leaving", 1)
            while here < len(self._island) and time.monotonic() < deadline:
                time.sleep(0.01)
                here = self.store.add("leaving", 0)
        except (RuntimeError, OSError):
            return


def _sentence(error: Exception) -> str:
    """The first line of what a backend threw, without its address book."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0]
    return first[first.rfind("] ") + 2 :][:300] if first.startswith("[") else first[:300]


@dataclass(frozen=True, slots=True)
class PreparedOperation:
    """One operation, ready to run. ``start`` gives the works to wait for; ``out`` takes what arrives.

    What is sent is known, so that every result can be compared with what is ``wanted``.
    """

    start: Callable[[], list[Any]]
    out: Any
    wanted: Any
    receives: bool = True
    """False: ``out`` is what this rank sends."""

    def right(self) -> bool:
        """Whether what arrived is what is wanted."""
        return bool(torch.equal(self.out, self.wanted))

    def clear(self) -> None:
        """Wipe what arrived, so that a result that stays away is not taken for the one before."""
        if self.receives:
            self.out.fill_(-1)


def prepare_operation(
    name: str, group: Any, members: tuple[int, ...], me: int, size: int, device: Any
) -> PreparedOperation:
    """The operation ``name`` of ``size`` bytes for the one at place ``me`` of ``members`` (ranks of the world)."""
    makers = {
        "all-reduce": _all_reduce,
        "all-gather": _all_gather,
        "reduce-scatter": _reduce_scatter,
        "all-to-all": _all_to_all,
        "broadcast": _broadcast,
        "pair": _pair,
    }
    return makers[name](group, members, me, max(1, size // _WIDTH), device)


def _pattern(count: int, device: Any) -> Any:
    """Small whole numbers: sums of them are exact in float32, and neighbours differ."""
    return (torch.arange(count, device=device) % 7 + 1).to(torch.float32)


def _all_reduce(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    own = _pattern(count, device)
    data = torch.empty_like(own)
    wanted = own * (ranks * (ranks + 1) / 2)

    def start() -> list[Any]:
        data.copy_(own).mul_(me + 1)
        return [dist.all_reduce(data, group=group, async_op=True)]

    return PreparedOperation(start, data, wanted)


def _all_gather(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    own = _pattern(max(1, count // ranks), device)
    data, out = own * (me + 1), torch.empty(own.numel() * ranks, device=device)
    wanted = torch.cat([own * (rank + 1) for rank in range(ranks)])
    return PreparedOperation(lambda: [dist.all_gather_into_tensor(out, data, group=group, async_op=True)], out, wanted)


def _reduce_scatter(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    part = max(1, count // ranks)
    own = _pattern(part * ranks, device)
    data, out = own * (me + 1), torch.empty(part, device=device)
    wanted = own[me * part : (me + 1) * part] * (ranks * (ranks + 1) / 2)
    return PreparedOperation(lambda: [dist.reduce_scatter_tensor(out, data, group=group, async_op=True)], out, wanted)


def _all_to_all(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    own = _pattern(max(1, count // ranks), device)
    data = torch.cat([own * (me * ranks + to + 1) for to in range(ranks)])
    out = torch.empty_like(data)
    wanted = torch.cat([own * (sender * ranks + me + 1) for sender in range(ranks)])
    return PreparedOperation(lambda: [dist.all_to_all_single(out, data, group=group, async_op=True)], out, wanted)


def _broadcast(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    wanted = _pattern(count, device)
    data = wanted.clone()
    return PreparedOperation(
        lambda: [dist.broadcast(data, members[0], group=group, async_op=True)], data, wanted, receives=me != 0
    )


def _pair(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    """Both ways at the same time."""
    other = members[1 - me]
    data, out = _pattern(count, device) * (me + 1), torch.empty(count, device=device)
    wanted = _pattern(count, device) * (2 - me)

    def start() -> list[Any]:
        send, receive = dist.P2POp(dist.isend, data, other, group), dist.P2POp(dist.irecv, out, other, group)
        # NCCL joins the two into one launch; in which order they are listed must not matter to the partner.
        works: list[Any] = dist.batch_isend_irecv([send, receive] if me == 0 else [receive, send])
        return works

    return PreparedOperation(start, out, wanted)
