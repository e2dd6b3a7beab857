"""A run in numbers: what Prometheus and OpenTelemetry are told, by the same names.

Names follow Prometheus' conventions: a prefix, base units, ``_total`` for what only grows. Up to
:data:`MAX_RANKS` ranks each rank has its own series; beyond that only what is made of all of them is told.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from unhang.view.machine_series import newest_sample
from unhang.view.reading import RunReading
from unhang.wire.documents.live_state import STATES, GroupColumns, LiveState

MAX_RANKS = 512
MAX_SAMPLE_AGE_S = 60.0
"""A machine is sampled every ten seconds: what is older says nothing about now."""
GAUGE, COUNTER = "gauge", "counter"
_CARD_GAUGES = (
    # after unhang_gpu_, text, unit, key of a card in machine/series.jsonl, factor
    ("utilization_ratio", "Share of the time a kernel ran on the GPU.", "1", "util", 0.01),
    ("memory_used_bytes", "GPU memory in use.", "By", "mem_used", 1),
    ("memory_total_bytes", "GPU memory there is.", "By", "mem_total", 1),
    ("sm_clock_hertz", "Clock of the GPU's multiprocessors.", "Hz", "sm_mhz", 1e6),
    ("temperature_celsius", "Temperature of the GPU.", "Cel", "temp_c", 1),
    ("power_watts", "Power the GPU draws.", "W", "power_w", 1),
    ("pcie_receive_bytes_per_second", "Received by the GPU over PCIe.", "By/s", "pcie_rx_bps", 1),
    ("pcie_transmit_bytes_per_second", "Sent by the GPU over PCIe.", "By/s", "pcie_tx_bps", 1),
    ("nvlink_receive_bytes_per_second", "Received by the GPU over NVLink.", "By/s", "nvlink_rx_bps", 1),
    ("nvlink_transmit_bytes_per_second", "Sent by the GPU over NVLink.", "By/s", "nvlink_tx_bps", 1),
)


@dataclass(frozen=True, slots=True)
class RunMetric:
    """One name with its values. ``kind``: ``gauge`` or ``counter``; ``unit`` as UCUM writes it (``s``, ``1``)."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    values: tuple[tuple[tuple[str, ...], float], ...]
    unit: str = "1"


def collect_metrics(reading: RunReading) -> tuple[RunMetric, ...]:
    """Everything that can be told now; ``unhang_up`` is 0 where nothing is known of the run."""
    state = reading.state
    up = _one("unhang_up", "1 while the state of the run is known.", 1.0 if state is not None else 0.0)
    if state is None:
        return (up,)
    told = (*_run(state), *_stall(state), *_verdict(state), *_groups(state), *_ranks(state))
    return (up, *told, *_cards(reading.folder))


def _one(name: str, text: str, value: float, *, kind: str = GAUGE, unit: str = "1") -> RunMetric:
    return RunMetric(name, kind, text, (), (((), float(value)),), unit)


def _run(state: LiveState) -> Iterator[RunMetric]:
    age_s = max(0.0, time.time() - state.at_s)
    yield _one("unhang_snapshot_age_seconds", "Age of what is told here.", round(age_s, 3), unit="s")
    yield _one("unhang_run_start_time_seconds", "When the command was started.", state.run.started_s, unit="s")
    yield _one("unhang_world_size", "Ranks the job should have.", state.run.world_size or len(state.ranks.rank))
    if state.totals.steps:  # 0 also means that nobody knows what a step is yet
        yield _one("unhang_steps_total", "Steps of the rank that is furthest.", state.totals.steps, kind=COUNTER)
    if state.totals.step_s is not None:
        yield _one("unhang_step_duration_seconds", "Median duration of a step.", state.totals.step_s, unit="s")
    counts = Counter(STATES[number] for number in state.ranks.state)
    yield RunMetric(
        "unhang_ranks",
        GAUGE,
        "Ranks by what they do: waiting (in a collective), busy, idle, silent, stopped, dead, absent, over.",
        ("state",),
        tuple(((word,), float(counts[word])) for word in STATES),
    )
    if state.totals.by_phase:
        spent = sorted(state.totals.by_phase.items())
        values = tuple(((label,), seconds) for label, (seconds, _) in spent)
        text = "Seconds in phases the program marked, of the rank that spent most."
        yield RunMetric("unhang_marked_phase_seconds_total", COUNTER, text, ("phase",), values, "s")


def _stall(state: LiveState) -> Iterator[RunMetric]:
    standing, told = state.standing, state.verdict
    stalled = told is not None and told.status == "hang" and standing is not None
    yield _one("unhang_stalled", "1 while ranks wait for one that will not come by itself.", 1.0 if stalled else 0.0)
    waited_s = standing.waited_s if standing is not None else 0.0
    yield _one("unhang_wait_seconds", "How long the rank that waits longest has waited.", waited_s, unit="s")
    waiters = len(standing.waiters) if standing is not None else 0
    yield _one("unhang_waiters", "Ranks that wait for others now.", waiters)
    if standing is not None and standing.killed_in_s is not None:
        yield _one("unhang_killed_in_seconds", "Until the limit of the wait passes.", standing.killed_in_s, unit="s")


def _verdict(state: LiveState) -> Iterator[RunMetric]:
    told = state.verdict
    if told is not None:
        labels = ("status", "cause", "certainty", "ranks", "where")
        ranks = ",".join(str(rank) for rank in told.ranks[:8]) + (",…" if len(told.ranks) > 8 else "")
        values = (((told.status, told.cause, told.certainty, ranks, told.where), 1.0),)
        yield RunMetric("unhang_verdict_info", GAUGE, "The last verdict that was said.", labels, values)
    found = Counter(state.totals.findings)
    if found:
        values_by_cause = tuple(((cause,), float(count)) for cause, count in sorted(found.items()))
        yield RunMetric(
            "unhang_verdicts_total", COUNTER, "Verdicts said so far, by cause.", ("cause",), values_by_cause
        )


def _groups(state: LiveState) -> Iterator[RunMetric]:
    values = tuple(((group.name,), float(_spread(group))) for group in state.groups if group.rank)
    if values:
        text = "How many collectives the last rank of a group is behind its first."
        yield RunMetric("unhang_group_lag_collectives", GAUGE, text, ("group",), values)


def _spread(group: GroupColumns) -> int:
    return max(group.enqueued) - min(group.enqueued)


def _ranks(state: LiveState) -> Iterator[RunMetric]:
    ranks, nodes = state.ranks, state.run.nodes
    known = [step for step in ranks.step_s if step > 0]
    if known:
        values = ((("min",), min(known)), (("median",), median(known)), (("max",), max(known)))
        yield RunMetric(
            "unhang_rank_step_spread_seconds", GAUGE, "Step duration over ranks.", ("over_ranks",), values, "s"
        )
    if len(ranks.rank) > MAX_RANKS:
        return
    names = [(str(rank), nodes[node] if node >= 0 else "") for rank, node in zip(ranks.rank, ranks.node, strict=True)]
    for name, kind, text, column, unit in (
        ("unhang_rank_steps_total", COUNTER, "Steps of each rank.", ranks.step, "1"),
        ("unhang_rank_step_duration_seconds", GAUGE, "Moving average of a step, by rank.", ranks.step_s, "s"),
        ("unhang_rank_wait_seconds", GAUGE, "How long each rank has waited for others.", _waits(state), "s"),
        ("unhang_rank_heartbeat_age_seconds", GAUGE, "Age of what each rank's record says.", ranks.beat_s, "s"),
    ):
        values_by_rank = tuple((who, float(value)) for who, value in zip(names, column, strict=True) if value >= 0)
        if values_by_rank:
            yield RunMetric(name, kind, text, ("rank", "node"), values_by_rank, unit)


def _waits(state: LiveState) -> list[float]:
    return [max(0.0, waited) for waited in state.ranks.waits_s]


def _cards(folder: Path) -> Iterator[RunMetric]:
    """Of this node, as last sampled; what nvidia-smi did not answer is absent."""
    sample = newest_sample(folder)
    if sample is None or time.time() - sample.t_s > MAX_SAMPLE_AGE_S:
        return
    named = [((sample.node, str(card.index), card.uuid), card) for card in sample.cards]
    for name, text, unit, key, factor in _CARD_GAUGES:
        known = [(who, getattr(card, key)) for who, card in named if card.mem_total or not key.startswith("mem_")]
        values = tuple((who, value * factor) for who, value in known if value is not None)
        if values:
            yield RunMetric(f"unhang_gpu_{name}", GAUGE, text, ("node", "gpu", "uuid"), values, unit)
