"""What the collective probe saw: every step with who finished it, every pair, and how a failure was narrowed down.

Ranks are those of the probe; seconds end in ``_s``; bandwidths are bytes a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
    "pair": lambda _: 1.0,
}
"""From bytes a second to bus bandwidth, for n ranks (NVIDIA/nccl-tests doc/PERFORMANCE.md, 2024-11; the size of
all-gather, reduce-scatter and all-to-all is that of the larger of their two buffers).
"""
LINE_MARK = "unhang-probe "


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One operation on one size, in all ``groups`` at the same time. ``connect`` is the making of the groups."""

    operation: str
    scope: str
    """``world``, ``node``, or the setting a group size comes from (``tensor_parallel=4``)."""
    groups: tuple[tuple[int, ...], ...]
    size: int = 0
    """Bytes, as nccl-tests counts them."""
    call_s: float | None = None
    """Of one call, the slowest rank's; None when it did not finish everywhere or was left out."""
    finished: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()
    """Ranks that began and did not come back within the limit, or came back with an error."""
    absent: tuple[int, ...] = ()
    """Ranks that never came to it while others waited."""
    wrong: tuple[int, ...] = ()
    """Ranks whose result was not the right one."""
    error: str = ""
    """What the first rank that failed said."""
    unsupported: str = ""
    """What the backend said when it has no such operation."""
    left_out: bool = False
    """Not run: the smaller sizes showed that it would outlast the limit."""

    @property
    def failed(self) -> bool:
        """Whether some rank waits in it, failed in it, or never came."""
        return bool(self.stuck or self.absent)

    @property
    def bus(self) -> float | None:
        """Bus bandwidth in bytes a second; None when it has none."""
        ranks = max(map(len, self.groups), default=0)
        if not self.call_s or not self.size or ranks < 2:
            return None
        factor = BUS_FACTORS.get(self.operation)
        return None if factor is None else self.size / self.call_s * factor(ranks)


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """What one rank sent to another and back: the bandwidth of the largest message."""

    ranks: tuple[int, int]
    bandwidth: float


@dataclass(frozen=True, slots=True)
class SuspectRound:
    """Groups tried apart after a failure, each in processes of its own, and those that failed again."""

    groups: tuple[tuple[int, ...], ...]
    failed: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The whole probe. ``nodes``: name by rank. ``planned``: ranks the job will have, where the command says."""

    backend: str
    nodes: tuple[str, ...]
    steps: tuple[ProbeStep, ...]
    limit_s: float
    pairs: tuple[PairSpeed, ...] = ()
    rounds: tuple[SuspectRound, ...] = ()
    missing: tuple[int, ...] = ()
    """Ranks that did not come to the rendezvous, so that nothing was tried with them."""
    place: str = ""
    """Where they should have met, ``address:port``."""
    link: float | None = None
    """What the slowest network link between the nodes should carry, bytes a second; None when not known."""
    interface: str = ""
    left: int = 0
    """Steps that were not reached: after a failure, or because the whole took too long."""
    planned: int | None = None
    devices: tuple[str, ...] = ()
    """Names of the cards by rank; empty on CPU."""
    took_s: float = 0.0
    failed_once: bool = False
    """The first try did not finish and no group alone failed; what is reported here is the second."""

    def __post_init__(self) -> None:
        """Raise where it contains ranks that took no part: another process wrote it."""
        groups = [group for step in self.steps for group in step.groups]
        groups += [group for one in self.rounds for group in (*one.groups, *one.failed)]
        groups += [ranks for step in self.steps for ranks in (step.finished, step.stuck, step.absent, step.wrong)]
        groups += [pair.ranks for pair in self.pairs]
        if not {rank for ranks in groups for rank in ranks} <= {*range(len(self.nodes))}:
            raise ValueError("it contains ranks that took no part")

    @property
    def ranks(self) -> int:
        """How many ranks took part."""
        return len(self.nodes)

    @property
    def several_nodes(self) -> bool:
        """Whether the ranks stand on more than one node."""
        return len(set(self.nodes)) > 1

    @property
    def failure(self) -> ProbeStep | None:
        """The first step that not every rank finished."""
        return next((step for step in self.steps if step.failed), None)

    @property
    def guilty(self) -> tuple[int, ...]:
        """Ranks that never passed and failed beside others that did; empty when the rounds do not settle it."""
        passed = {
            rank for round_ in self.rounds for group in round_.groups if group not in round_.failed for rank in group
        }
        bad = {
            rank
            for round_ in self.rounds
            for group in round_.failed
            for rank in group
            if rank not in passed and set(group) - self._mates(rank) <= passed
        }
        return tuple(sorted(bad))

    def _mates(self, rank: int) -> set[int]:
        """Who is tried together with ``rank`` in every round: all of its node, or nobody where there is one node."""
        if not self.several_nodes:
            return {rank}
        return {other for other, node in enumerate(self.nodes) if node == self.nodes[rank]}


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What was probed, or why nothing could be."""

    probed: ProbeResult | None = None
    refused: str = ""


def answer_line(probed: ProbeResult) -> str:
    """The line for ``probed``, on a line of its own whatever was printed before."""
    return f"\n{LINE_MARK}{msgspec.json.encode(ProbeAnswer(probed)).decode()}\n"


def refusal_line(reason: str) -> str:
    """The line that says why there is no probe."""
    return f"\n{LINE_MARK}{msgspec.json.encode(ProbeAnswer(refused=reason)).decode()}\n"


def find_answer(text: str) -> ProbeAnswer | None:
    """The last answer in what a probe process printed; None when there is none, or one of another version."""
    lines = [line for line in text.splitlines() if line.startswith(LINE_MARK)]
    if not lines:
        return None
    try:
        return msgspec.json.decode(lines[-1].removeprefix(LINE_MARK), type=ProbeAnswer)
    except msgspec.MsgspecError:
        return None
