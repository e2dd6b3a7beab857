"""Signs of machines: samples of one node or two, of which one value is varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.facts.jobs import call, recording
from tests.knowledge.boundaries.boundary import turns
from tests.machine_samples import card, rank, series
from unhang.causes.wording.machine_reasons import because
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LogEvent
from unhang.facts.build import build_facts
from unhang.facts.machine.machine_state import MachineSign, machine_signs
from unhang.facts.machine.xids import KIND, add_sampled_xids
from unhang.findings import Evidence, Source
from unhang.wire.documents.bundle import BundleManifest
from unhang.wire.documents.machine_series import MachineSeries, read_machine_series

LAST_S = 1_760_000_090.0
AGAIN = {"tcp": {"sent": 40, "sent_again": 20}}
BOTH = [rank(0), rank(1)]


def machine(rows: Sequence[Mapping[str, Any]], every_s: float = 10.0) -> MachineSeries:
    """The samples of node-a."""
    raw = series(rows, last_s=LAST_S, every_s=every_s)
    found = read_machine_series(raw, source=Source("machine/series.jsonl"))
    assert isinstance(found, MachineSeries)
    return found


def kinds(*rows: Mapping[str, Any], every_s: float = 10.0, since_s: float | None = None) -> set[str]:
    """The signs of a machine whose two ranks wait in one collective; looked at as the last row but those after it."""
    calls = [call(position, state="scheduled" if position == 9 else "completed") for position in range(1, 10)]
    dumps = [recording(number, calls, groups={"0": (0, 1)}) for number in (0, 1)]
    seen = EvidenceSet(recorder_dumps=dumps, machines=[machine(rows, every_s)])
    if since_s is not None:
        seen.manifests.append(
            BundleManifest(
                source=Source("bundle.json"), world_size=2, processes=(), stalled_since_s=since_s, taken_s=LAST_S
            )
        )
    return {sign.kind for sign in machine_signs(build_facts(seen))}


def share_of(share: float, row: Mapping[str, Any], other: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A hundred samples, ``share`` of which are ``row``."""
    return [row if number < round(100 * share) else other for number in range(100)]


@turns("machine_state.moving_s")
def long_ago(ago_s: float) -> object:
    return kinds({**AGAIN, "t_s": LAST_S - ago_s + 5}, {})


@turns("machine_state.mostly")
def clocks_held_down(share: float) -> object:
    hot = {"cards": [card(0, throttle=["hw_thermal_slowdown"]), card(1)], "ranks": BOTH}
    return kinds(*share_of(share, hot, {"cards": [card(0), card(1)], "ranks": BOTH}), every_s=1.0)


@turns("machine_state.less_clock")
def lower_clock(share: float) -> object:
    return kinds({"cards": [card(0, sm_mhz=round(1980 * share)), card(1)], "ranks": BOTH})


@turns("machine_state.busy_percent")
def lower_clock_of_a_card_in_use(percent: float) -> object:
    return "card-clocks" in kinds({"cards": [card(0, sm_mhz=900, util=percent), card(1)], "ranks": BOTH})


@turns("machine_state.spins_percent")
def spinning(percent: float) -> object:
    return kinds({"cards": [card(0, util=percent), card(1, util=0)], "ranks": BOTH})


def limited(periods: int, throttled: int) -> object:
    return kinds({"cgroup": {"job": _group(periods, throttled)}, "ranks": BOTH})


def _group(periods: int, throttled: int) -> dict[str, Any]:
    return {"limit_cpus": 2.0, "periods": periods, "throttled": throttled, "throttled_s": 1.0, "ranks": [0]}


@turns("machine_state.throttled")
def at_its_limit(share: float) -> object:
    return limited(1000, round(1000 * share))


@turns("machine_state.min_periods")
def few_periods(periods: int) -> object:
    return limited(periods, periods)


@turns("machine_state.less_than_peers")
def without_a_processor(left: float) -> object:
    return kinds({"ranks": [rank(0, starved=1 - left), rank(1, starved=0.0)]})


@turns("machine_state.waits_for_io")
def waits_for_io(share: float) -> object:
    return kinds({"pressure": {"io": {"some": share}}})


@turns("machine_state.disk_busy")
def busy_disk(share: float) -> object:
    return kinds({"disk": {"sda": {"paths": ["/c"], "busy": share}}})


@turns("machine_state.full_share")
def small_and_nearly_full(share: float) -> object:
    return kinds({"space": {"/dev/shm": {"free": round(share * (1 << 30)), "size": 1 << 30}}})


@turns("machine_state.full_bytes")
def large_and_nearly_full(free: int) -> object:
    return kinds({"space": {"/c": {"free": free, "size": 1 << 40}}})


@turns("machine_state.silent_s")
def no_answer(seconds: float) -> object:
    return kinds({"space": {"/c": {"unanswered_s": seconds}}})


@turns("machine_state.many_errors")
def errors_of_a_link(count: int) -> object:
    return kinds({"net": {"eth0": {"errors": count}}})


@turns("machine_state.sent_again")
def sent_again(count: int) -> object:
    return kinds({"tcp": {"sent": 2 * count, "sent_again": count}})


@turns("machine_state.sent_again_share")
def sent_again_of_many(share: float) -> object:
    return kinds({"tcp": {"sent": 10_000, "sent_again": round(10_000 * share)}})


@turns("machine_state.memory_stalls")
def stands_still_for_memory(share: float) -> object:
    return kinds({"pressure": {"memory": {"some": share}}, "ranks": [rank(0)]})


@turns("machine_state.looks")
def in_the_kernel(samples: int) -> object:
    return kinds(*[{"ranks": [rank(0, blocked=1)]}] * samples)


@turns("xids.same_s")
def xid_of_log_and_sample(apart_s: float) -> object:
    seen = machine([{"cards": [card(1)], "ranks": BOTH, "xids": [{"bus": "0000:01:00", "code": 79}]}])
    values = {"bus": "0000:01:00", "xid": 79}
    logged = LogEvent(KIND, Source("kernel.log", line=1), "Xid 79", None, LAST_S - 10 - apart_s, values)
    return len(add_sampled_xids([logged], [seen]))


@turns("machine_reasons.much_elsewhere")
def used_by_others(processors: float) -> object:
    values = {"percent": 50, "peers_percent": 1, "pid": None, "elsewhere": processors, "processors": 8}
    sign = MachineSign("cpu-starved", "node-a", Evidence(Source("machine/series.jsonl"), ""), 0, values)
    return ["processes outside the job" in str(sentence) for sentence in because([sign])]
