"""The kernel's counters become rates, other people stay nameless, and nothing grows without end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.waiting import wait_for
from unhang.findings import Source
from unhang.watch.machine import storage as storage_file
from unhang.watch.machine.control_groups import ControlGroups
from unhang.watch.machine.counters import KernelPaths
from unhang.watch.machine.network import Network
from unhang.watch.machine.processor_use import Pressure, ProcessorUse
from unhang.watch.machine.sampler import MAX_BYTES, MachineSampler, NcclStartupLogs
from unhang.watch.machine.series_file import FILES, SeriesFile, read_tail
from unhang.watch.machine.storage import Storage
from unhang.watch.run_folder import RunFolder
from unhang.watch.side_process import MachineSampling
from unhang.wire.documents.machine_series import MachineSeries, read_machine_series
from unhang.wire.documents.run_plan import RunPlan

PID = 4001
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def places(tmp_path: Path) -> KernelPaths:
    """An empty ``/proc`` and ``/sys``."""
    for name in ("proc/self/net", "sys/fs/cgroup"):
        (tmp_path / name).mkdir(parents=True)
    return KernelPaths(tmp_path / "proc", tmp_path / "sys", tmp_path / "kmsg")


def process(places: KernelPaths, pid: int, parent: int, ticks: int, *, waited_ns: int = 0, state: str = "S") -> None:
    folder = places.proc / str(pid)
    folder.mkdir(exist_ok=True)
    fields = [state, str(parent), *["0"] * 9, str(ticks), "0", "0", "0", *["0"] * 4, "77", *["0"] * 20]
    (folder / "stat").write_text(f"{pid} (a name) with) {' '.join(fields)}\n")
    (folder / "schedstat").write_text(f"5 {waited_ns} 7\n")
    (folder / "comm").write_text("python\n")
    (folder / "cmdline").write_bytes(b"python\0--token\0secret\0")


def test_pressure_and_processors_are_shares_of_the_time_between_two_looks(places: KernelPaths) -> None:
    (places.proc / "pressure").mkdir()
    look = Pressure(places)
    for total, idle in ((0, 0), (2_500_000, 100)):
        (places.proc / "pressure" / "io").write_text(f"some avg10=0 total={total}\nfull avg10=0 total={total // 5}\n")
        (places.proc / "stat").write_text(f"cpu {idle * 3} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n")
        found = look.sample(5.0)

    assert found["pressure"] == {"io": {"some": 0.5, "full": 0.1}}
    assert found["cpu"]["busy"] == round(0.75 * (os.cpu_count() or 1), 2)


def test_network_counts_errors_lost_links_and_segments_sent_again(places: KernelPaths) -> None:
    interface = places.sys / "class" / "net" / "eth0"
    interface.mkdir(parents=True)
    (interface / "operstate").write_text("down\n")
    look = Network(places)
    for times in (0, 1):
        row = f"{1000 * times} 5 {3 * times} 2 0 0 0 0 {9000 * times} 5 {times} 0 0 0 0 0"
        (places.proc / "self" / "net" / "dev").write_text(f"Inter-|\n face |\n  eth0: {row}\n    lo: {row}\n")
        (places.proc / "self" / "net" / "snmp").write_text(
            f"Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 {200 * times} {30 * times}\n"
        )
        (interface / "carrier_changes").write_text(f"{1 + 2 * times}\n")
        found = look.sample(10.0, None)

    assert found["tcp"] == {"sent": 200, "sent_again": 30}
    eth0 = found["net"]["eth0"]
    assert (eth0["rx_bps"], eth0["tx_bps"], eth0["errors"], eth0["link_changes"]) == (100.0, 900.0, 4, 2)
    assert eth0["state"] == "down"


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        (
            "0::/job.slice/rank1\n",
            {
                "job.slice/rank1/cpu.max": "50000 100000",
                "job.slice/rank1/cpu.stat": "usage_usec 1\nnr_periods {n}\nnr_throttled {n}\nthrottled_usec {us}",
            },
        ),
        (
            "4:memory:/x\n1:cpu,cpuacct:/job.slice/rank1\n",
            {
                "cpu,cpuacct/job.slice/rank1/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/job.slice/rank1/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/job.slice/rank1/cpu.stat": "nr_periods {n}\nnr_throttled {n}\nthrottled_time {us}000",
            },
        ),
    ],
    ids=["v2", "v1"],
)
def test_a_limit_on_processors_is_told_with_how_often_it_was_hit(
    cgroup: str, files: dict[str, str], places: KernelPaths
) -> None:
    process(places, PID, 1, 0)
    (places.proc / str(PID) / "cgroup").write_text(cgroup)
    look = ControlGroups(places)
    for number in (0, 40):
        for name, text in files.items():
            path = places.sys / "fs" / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(n=number, us=number * 1000) + "\n")
        found = look.sample({1: PID})

    ((name, group),) = found["cgroup"].items()
    assert name.endswith("/job.slice/rank1")
    assert group == {"limit_cpus": 0.5, "periods": 40, "throttled": 40, "throttled_s": 0.04, "ranks": [1]}


def test_ranks_and_strangers_are_told_apart_and_nobodys_words_are_kept(places: KernelPaths) -> None:
    look = ProcessorUse(places, {4000})
    for times in (0, 1):
        process(places, 4000, 1, 10)
        process(places, PID, 4000, 100 * times * TICKS // 100, waited_ns=int(6e8) * times)
        process(places, PID + 1, PID, 50 * times * TICKS // 100, state="D")
        process(places, 9001, 1, 300 * times * TICKS // 100)
        process(places, 30, 2, 500 * times)
        found = look.sample(2.0, {1: PID})

    assert found["ranks"] == [{"rank": 1, "pid": PID, "cpus": 0.75, "blocked": 1, "starved": 0.3}]
    assert found["others"] == [{"pid": 9001, "user": "same", "name": "python", "cpus": 1.5}]
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(("theirs", "named"), [("3", [9001]), ("2-3", [9001]), ("0-3", []), ("4", [])])
def test_who_is_bound_to_the_processors_of_a_bound_rank_is_told_beside_it(
    theirs: str, named: list[int], places: KernelPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    look = ProcessorUse(places, {4000})
    for times in (0, 1):
        process(places, PID, 1, 50 * times * TICKS // 100)
        process(places, 9001, 1, 100 * times * TICKS // 100)
        (places.proc / str(PID) / "status").write_text("Name:\tpython\nCpus_allowed_list:\t2-3\nMems_allowed:\t1\n")
        (places.proc / "9001" / "status").write_text(f"Name:\tpython\nCpus_allowed_list:\t{theirs}\n")
        found = look.sample(2.0, {1: PID})

    (rank,) = found["ranks"]
    assert rank["processors"] == 2
    assert [one["pid"] for one in rank.get("beside", [])] == named


def test_of_another_user_only_the_number_is_kept(places: KernelPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    process(places, 9001, 1, 0)
    monkeypatch.setattr(os, "getuid", lambda: os.stat(places.proc).st_uid + 1)  # noqa: PTH116

    assert ProcessorUse(places, ()).owner_entry(9001) == {"user": "another", "uid": os.stat(places.proc).st_uid}  # noqa: PTH116


def test_a_file_system_that_does_not_answer_is_told_and_holds_nothing_up(
    places: KernelPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def silent(path: str) -> str:
        over.wait(600)
        return path

    monkeypatch.setattr(storage_file, "_nearest", silent)
    monkeypatch.setattr(storage_file, "SLOW_S", 0.05)
    look = Storage(places, lambda: [(str(tmp_path), "checkpoints")])
    look.sample(0.0)
    found: dict[str, dict[str, dict[str, float]]] = {}
    wait_for(lambda: found.update(look.sample(1.0)) or found)
    over.set()

    assert found["space"][str(tmp_path)]["unanswered_s"] > 0


def test_the_series_keeps_below_its_bound_and_every_file_begins_with_its_head(tmp_path: Path) -> None:
    file = SeriesFile(tmp_path, {"node": "n"}, max_bytes=2_000)
    for number in range(400):
        file.add({"t_s": float(number), "node": "n"})

    files = sorted((tmp_path / "machine").iterdir())
    found = [read_machine_series(path.read_bytes(), source=Source(path.name)) for path in files]
    assert len(files) == FILES
    assert all(path.stat().st_size <= 2_000 and path.stat().st_mode & 0o77 == 0 for path in files)
    assert all(isinstance(one, MachineSeries) and one.unread == () for one in found)
    newest = found[files.index(tmp_path / "machine" / "series.jsonl")]
    assert isinstance(newest, MachineSeries)
    assert newest.rows[-1].t_s == 399


def test_the_last_samples_travel_with_their_head(tmp_path: Path) -> None:
    file = SeriesFile(tmp_path, {"node": "n"})
    for number in range(20_000):
        file.add({"t_s": float(number), "node": "n"})
        if number in (3, 19_999):
            raw = read_tail(tmp_path / "machine" / "series.jsonl")
            found = read_machine_series(raw, source=Source("x"))
            assert isinstance(found, MachineSeries)
            assert (found.rows[-1].t_s, found.unread, len(raw) < 300_000) == (number, (), True)


def test_lines_of_nccl_are_kept_and_one_that_writes_without_end_is_cut_off(tmp_path: Path) -> None:
    records, folder = tmp_path / "records", tmp_path / "run"
    (records / "nccl").mkdir(parents=True)
    folder.mkdir()
    (records / "nccl" / "rank_0.h.11.log").write_text("a line\n")
    (records / "nccl" / "rank_9.h.12.log").symlink_to("/etc/passwd")
    keeper = NcclStartupLogs(records, folder)
    with (records / "nccl" / "rank_1.h.12.log").open("wb", buffering=0) as endless:
        for _ in range(3):
            endless.write(b"x" * MAX_BYTES)
            keeper.keep()
        written, held = endless.tell(), os.fstat(endless.fileno()).st_blocks * 512

    assert (folder / "nccl" / "rank_0.h.11.log").read_text() == "a line\n"
    assert (folder / "nccl" / "rank_1.h.12.log").stat().st_size == MAX_BYTES
    assert written == 3 * MAX_BYTES
    assert held <= 2 * MAX_BYTES
    assert sorted(path.name for path in (folder / "nccl").iterdir()) == ["rank_0.h.11.log", "rank_1.h.12.log"]


@pytest.mark.parametrize("name", ["run", "two\nlines \x1b[31m of \u2028 it", "x" * 200])
def test_a_sample_of_this_machine_is_read_back_whole(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / name / name
    folder.mkdir(parents=True)
    sampler = MachineSampler(folder, tmp_path / "records", RunPlan(job_pid=os.getpid(), cwd=str(folder)))

    sampler.sample()
    wait_for(lambda: bool(sampler.sample().get("space")))
    row = sampler.sample()

    found = read_machine_series((folder / "machine" / "series.jsonl").read_bytes(), source=Source("x"))
    assert isinstance(found, MachineSeries)
    assert [one.t_s for one in found.rows][-1] == row["t_s"]
    assert found.unread == ()
    assert row["cost_s"] > 0


def test_the_sampler_ends_when_it_is_told_and_when_its_watcher_is_gone(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_plan(RunPlan(job_pid=os.getpid(), cwd=str(tmp_path)))
    series = folder.path / "machine" / "series.jsonl"
    process = MachineSampling(folder.path, folder.path / ".unhang")
    running = process.process._process
    assert running is not None
    wait_for(series.exists)
    before = series.read_bytes().count(b"\n")
    process.ask()
    wait_for(lambda: series.read_bytes().count(b"\n") > before)
    process.process.end()
    assert running.poll() is not None

    series.unlink()
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from unhang.watch.side_process import MachineSampling\n"
        f"p = MachineSampling(Path({str(folder.path)!r}), Path({str(folder.path / '.unhang')!r}))\n"
        "print(p.process._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        pid = int(watcher.stdout.readline())
        wait_for(series.exists)
        watcher.kill()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def test_a_sampler_whose_watcher_went_before_it_began_ends_at_once(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_plan(RunPlan(job_pid=os.getpid(), cwd=str(tmp_path)))
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()

    words = [sys.executable, "-m", "unhang.watch.machine.sampler", str(folder.path), str(tmp_path), str(gone.pid)]
    assert subprocess.run(words, timeout=60, check=False).returncode == 0
