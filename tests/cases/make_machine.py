"""Cases in which the machine's own samples tell what holds a rank up, or only seem to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.case_writer import START_NS, Job
from tests.cases.make_failures import raised, torchrun
from tests.cases.make_moving import AT as MOVING_AT
from tests.cases.make_moving import moving
from tests.cases.make_waits import AT, SAVE, SAVING, SPINNING, WAIT_FOR_BATCH
from tests.machine_samples import UUID, card, rank, series

TAKEN_S = START_NS / 1e9 + 90
CROWDED = {"pid": 9001, "user": "another", "uid": 1007, "cpus": 6.5}
HOT = {"throttle": ["hw_thermal_slowdown", "hw_slowdown"], "sm_mhz": 990, "temp_c": 91}


def make() -> None:
    """Write all of them."""
    _slow_ranks()
    _storage()
    _save_fails()
    _network()
    _xids()
    _computes_alone()


def _slow_ranks() -> None:
    slow = {"status": "slow", "exit_code": 1, "cause": "slow-rank", "ranks": [0], "certainty": "likely"}
    both = [rank(0), rank(1)]
    on_0 = {"pid": 9001, "user": "another", "uid": 1007, "uuid": UUID.format(0), "card_mem": 30 << 30}
    group = {"limit_cpus": 2.0, "periods": 100, "throttled": 74, "throttled_s": 31.0, "ranks": [0]}
    hits: dict[str, tuple[Mapping[str, Any], list[str]]] = {
        "hot_card": ({"cards": [card(0, **HOT), card(1)], "ranks": both}, ["card 0 of node-a", "hw_thermal_slowdown"]),
        "slow_clock": ({"cards": [card(0, sm_mhz=1200), card(1)], "ranks": both}, ["1200 MHz", "1980 MHz"]),
        "stranger_on_its_card": ({"cards": [card(0), card(1)], "ranks": both, "others": [on_0]}, ["process 9001"]),
        "limit_on_its_processors": ({"cgroup": {"/a": group}, "ranks": both}, ["may use 2 CPUs", "74 %"]),
        "neighbour_takes_its_processors": (
            {"ranks": [rank(0, starved=0.62), rank(1)], "others": [CROWDED]},
            ["got no CPU 62 %", "process 9001", "6.5 CPUs"],
        ),
    }
    busy = {"cpu": {"processors": 16, "busy": 15.8}, "job_cpus": 3.6, "ranks": [rank(0, starved=0.62), rank(1)]}
    hits["many_take_its_processors"] = (busy, ["used 12.2 of 16 CPUs"])
    beside = [{"pid": 18504, "user": "same", "name": "python3", "cpus": 0.24}]
    bound = {"starved": 0.76, "cpus": 0.24, "processors": 1}
    hits["process_bound_to_its_processor"] = (
        {"ranks": [rank(0, **bound, beside=beside), rank(1)], "others": [CROWDED]},
        ["got no CPU 76 %", "bound to the same 1 CPU used 0.2", "most of all process 18504"],
    )
    hits["bound_where_no_other_process_is"] = (
        {"ranks": [rank(0, **bound), rank(1)], "others": [CROWDED]},
        ["got no CPU 76 % of the time (others: 1 %)"],
    )
    for name, (row, says) in hits.items():
        job = _two_looks(row)
        job.write(f"slow-rank/hit_two_looks_and_{name}", {**slow, "says": says})
    same = {"/a": {**group, "ranks": [0, 1]}}
    alike: dict[str, Mapping[str, Any]] = {
        "all_cards_hot": {"cards": [card(0, **HOT), card(1, **HOT)], "ranks": both},
        "all_limited": {"cgroup": same, "ranks": [rank(0, starved=0.6), rank(1, starved=0.55)], "others": [CROWDED]},
        "its_card_only_waits": {"cards": [card(0, util=3, sm_mhz=345, throttle=["idle"]), card(1)], "ranks": both},
    }
    for name, row in alike.items():
        unsure = {"status": "slow", "cause": "slow-rank", "ranks": [0], "certainty_at_most": "possible"}
        _two_looks(row).write(f"slow-rank/unsure_two_looks_{name}", unsure)
    job = moving(waits={0: 0.05, 1: 0.7})
    job.files["machine/series.jsonl"] = series(
        [{"cards": [card(0, **HOT), card(1)], "ranks": both}] * 6, last_s=TAKEN_S
    )
    wanted = {"status": "slow", "cause": "single-rank-work", "not_cause": "slow-rank"}
    job.write("slow-rank/miss_hot_card_and_it_writes_in_every_step", wanted)


def _two_looks(row: Mapping[str, Any]) -> Job:
    """Rank 0 computes in both looks, and the machine was as ``row`` says."""
    job = moving(waits={0: 0.3, 1: 0.3}, extra="COMPUTE")
    del job.files["machine/pace.json"]
    for look in ("rank_0.1.txt", "rank_0.txt"):
        job.stack(0, "return model(batch) < loss = compute(batch)", name=look)
    job.waits((1,), "all_reduce", MOVING_AT)
    job.files["machine/series.jsonl"] = series([row] * 6, last_s=TAKEN_S)
    return job


def _computes_alone() -> None:
    """Rank 0 computes while rank 1 waits for it in a collective; what holds rank 0 up stands in the samples."""
    both = [rank(0), rank(1)]
    on_0 = {"pid": 9001, "user": "another", "uid": 1007, "uuid": UUID.format(0), "card_mem": 30 << 30}
    group = {"limit_cpus": 2.0, "periods": 100, "throttled": 74, "throttled_s": 31.0, "ranks": [0]}
    pressure = {"pressure": {"io": {"some": 0.97}}}
    hits: dict[str, tuple[Mapping[str, Any], list[str]]] = {
        "a_hot_card": ({"cards": [card(0, **HOT), card(1)], "ranks": both}, ["rank 0's GPU (card 0 of node-a)"]),
        "a_stranger_on_its_card": ({"cards": [card(0), card(1)], "ranks": both, "others": [on_0]}, ["process 9001"]),
        "a_limit_on_its_processors": ({"cgroup": {"/a": group}, "ranks": both}, ["may use 2 CPUs"]),
        "a_neighbour_on_its_processor": (
            {"ranks": [rank(0, starved=0.62), rank(1)], "others": [CROWDED]},
            ["got no CPU 62 %", "process 9001"],
        ),
        "a_disk_it_waits_for": (
            {"ranks": [rank(0, blocked=1), rank(1)], **pressure},
            ["rank 0 was in an unfinished read or write", "stalled on disks 97 %"],
        ),
    }
    alone = {"status": "hang", "cause": "single-rank-work", "ranks": [0]}
    for name, (row, says) in hits.items():
        computing(row).write(f"single-rank-work/hit_computes_with_{name}", {**alone, "says": says})


def computing(row: Mapping[str, Any]) -> Job:
    """Rank 0 is busy in its own code, the machine was as ``row`` says."""
    job = Job(SAVE, 2)
    _behind(job, 0)
    job.stack(0, SPINNING, state="active")
    job.process(0, moving=True, state="R")
    job.files["machine/series.jsonl"] = series([row] * 3, last_s=TAKEN_S)
    return job


def _storage() -> None:
    stopped = {"status": "hang", "ranks": [0]}
    silent = {"/mnt/ckpt": {"use": "checkpoints", "type": "nfs4", "unanswered_s": 41.0}}
    waits = {"io": {"some": 0.97, "full": 0.9}}
    cases: dict[str, tuple[Mapping[str, Any], list[str]]] = {
        "single-rank-work/hit_saves_to_a_file_system_that_is_silent": ({"space": silent}, ["did not answer for 41 s"]),
        "single-rank-work/hit_saves_under_io_pressure": ({"pressure": waits}, ["stalled on disks 97 %"]),
        "single-rank-work/hit_saves_and_stands_in_a_write": (
            {"ranks": [rank(0, blocked=1), rank(1)]},
            ["rank 0 was in an unfinished read or write", "in 3 of 3 samples"],
        ),
    }
    for case, (row, says) in cases.items():
        job = _saves(row)
        job.write(case, {**stopped, "cause": "single-rank-work", "where": job.place(SAVING), "says": says})
    job = Job(SAVE, 2)
    _behind(job, 1)
    job.stack(1, "for batch in make_loader():", WAIT_FOR_BATCH)
    job.files["machine/series.jsonl"] = series([{"pressure": waits, "ranks": [rank(0), rank(1)]}] * 3, last_s=TAKEN_S)
    wanted = {"status": "hang", "ranks": [1], "cause": "slow-data-loading", "says": ["stalled on disks"]}
    job.write("slow-data-loading/hit_the_disk_holds_the_loader_up", wanted)


def _save_fails() -> None:
    """Rank 0's save ends in the middle of a file, for its disk is full."""
    job = Job(SAVE, 2)
    job.process(0, exit_code=1, killed_by_us=False, ended_s=TAKEN_S - 5)
    job.process(1, exit_code=-15, killed_by_us=False, terminated_by_launcher=True, ended_s=TAKEN_S - 4)
    cut = "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"
    job.log("job.log", raised(0, cut, line=9) + torchrun((0, 1), victims=(1,)))
    full = {"/mnt/ckpt": {"use": "checkpoints", "type": "xfs", "free": 0, "size": 2 << 40}}
    job.files["machine/series.jsonl"] = series([{"space": full, "ranks": [rank(0), rank(1)]}] * 3, last_s=TAKEN_S)
    says = ["the file system under /mnt/ckpt on node-a is full"]
    wanted = {"cause": "rank-crashed", "ranks": [0], "exit_code": 1, "says": says}
    job.write("rank-crashed/hit_its_save_found_no_room", wanted)


def _saves(row: Mapping[str, Any]) -> Job:
    job = Job(SAVE, 2)
    _behind(job, 0)
    job.stack(0, SAVING, "save (torch/serialization.py:850)")
    job.files["machine/series.jsonl"] = series([{"ranks": [rank(0), rank(1)], **row}] * 3, last_s=TAKEN_S)
    return job


def _behind(job: Job, late: int) -> None:
    job.history((0, 1), 40, AT)
    job.call((1 - late,), 41, at=AT, open=True)
    job.dump(0, 1)
    job.waits((1 - late,), "all_reduce", AT)


def _network() -> None:
    net = {"rx_bps": 1e9, "tx_bps": 1e9, "errors": 0, "dropped": 0, "link_changes": 0, "state": "up"}
    again = {"tcp": {"sent": 120, "sent_again": 46}, "net": {"eth0": net}}
    lost = {"net": {"eth0": net, "eth1": {**net, "link_changes": 2, "state": "down"}}}
    cards = {"cards": [card(0, util=100), card(1, util=100)], "ranks": [rank(0), rank(1)]}
    failed = {"status": "hang", "cause": "network-fault", "certainty": "likely", "exit_code": 1}
    job = _all_wait(lost)
    job.write("network-fault/hit_link_lost_while_all_wait", {**failed, "says": ["eth1 on node-a lost its link"]})
    job = _all_wait({**again, **cards})
    busy = "ranks 0-1 show full use and do no work"
    job.write("network-fault/hit_segments_sent_again_while_all_wait", {**failed, "says": ["38 %", busy[:5]]})
    job = _all_wait({"net": {"eth0": {**net, "errors": 40}}})
    unsure = {"status": "hang", "also": ["network-fault"], "certainty_at_most": "likely", "cause": "unknown"}
    job.write("network-fault/unsure_an_interface_counts_errors", unsure)
    job = _saves(again)
    wanted = {"cause": "single-rank-work", "not_cause": "network-fault", "ranks": [0]}
    job.write("single-rank-work/hit_saves_while_segments_are_sent_again", wanted)
    job = _all_wait({**cards, "net": {"eth0": net}, "tcp": {"sent": 900, "sent_again": 3}})
    unknown = {"status": "hang", "cause": "unknown"}
    job.write("unknown/hit_all_joined_and_the_cards_spin", {**unknown, "says": ["do no work"]})
    job = _all_wait({"net": {"eth0": net}})
    for number in (0, 1):
        job.files[f"nccl/rank_{number}.node-a.{4000 + number}.log"] = _start_of(number, "SHM/direct/direct")
    says = ["NCCL chose these paths between the GPUs: SHM"]
    job.write("unknown/hit_all_joined_over_shared_memory", {**unknown, "says": says, "also": ["gpu-hardware"]})


def _xids() -> None:
    """Both ranks stand in one collective while the driver reports something of a card; rank 1 is on card 1."""
    on_cards = {"cards": [card(index) for index in range(4)], "ranks": [rank(0), rank(1)]}
    nobody_tells = {**on_cards, "ranks": [rank(0, cards=[]), rank(1, cards=[])]}
    seen = {"status": "hang", "exit_code": 1, "cause": "gpu-hardware", "certainty": "likely", "says": ["Xid 79"]}
    off_the_bus = {"bus": "0000:01:00", "code": 79}
    job = _all_wait({**on_cards, "xids": [off_the_bus]})
    job.write("gpu-hardware/hit_samples_xid_79", {**seen, "ranks": [1]})
    job = _all_wait({**nobody_tells, "xids": [off_the_bus]})
    job.write("gpu-hardware/unsure_samples_xid_79_of_a_card_that_may_be_anothers", {**seen, "ranks": []})
    job = _all_wait({**on_cards, "xids": [{"bus": "0000:03:00", "code": 79}]})
    nothing = {"status": "hang", "cause": "unknown", "not_cause": "gpu-hardware", "certainty_at_most": "likely"}
    job.write("gpu-hardware/miss_samples_xid_79_of_a_card_no_rank_uses", nothing)
    job = _all_wait({**on_cards, "xids": [{"bus": "0000:01:00", "code": 31, "pid": 4001}]})
    program = {"cause": "rank-crashed", "not_cause": "gpu-hardware", "ranks": [1]}
    job.write("gpu-hardware/miss_samples_xid_31_is_the_program", program)


def _start_of(number: int, way: str) -> bytes:
    """What NCCL says as it makes a communicator of two ranks."""
    head = f"node-a:{4000 + number}:{4100 + number} [{number}] NCCL INFO"
    comm = f"comm 0x55dbab194e80 rank {number} nranks 2 cudaDev {number} nvmlDev {number} busId {number + 1}000"
    lines = [
        "Bootstrap : Using eth0:10.0.0.4<0>",
        "NET/IB : No device found.",
        "Using network Socket",
        f"{comm} commId 0xebe385fab26d7bd - Init START",
        *(
            f"Channel {channel:02d} : {number}[{number}] -> {1 - number}[{1 - number}] via {way}"
            for channel in range(4)
        ),
        "Connected all rings",
        f"{comm} commId 0xebe385fab26d7bd - Init COMPLETE",
    ]
    return "".join(f"{head} {line}\n" for line in lines).encode()


def _all_wait(row: Mapping[str, Any]) -> Job:
    job = Job(SAVE, 2)
    job.history((0, 1), 40, AT)
    job.call((0, 1), 41, at=AT, open=True)
    job.dump(0, 1)
    job.waits((0, 1), "all_reduce", AT)
    job.files["machine/series.jsonl"] = series([row] * 3, last_s=TAKEN_S)
    return job
