"""Storage on real file systems: memory, a full, a read-only, a slow, a frozen one; nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.environment.environment import Timer, Timers
from unhang.check.judge import judge
from unhang.check.storage import collect_storage, storage_trial
from unhang.check.storage.storage import JobPath, Storage, StorageMeasurement
from unhang.check.storage.storage_paths import find_job_paths
from unhang.findings import Certainty, Finding, Severity, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import CommandOutput, Machine
from unhang.knowledge.job.job_paths import FileSystemRow
from unhang.knowledge.tables import read_rows
from unhang.program.launch.planned_job import PlannedJob

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount file systems")


class Bare(Machine):
    """This machine without torch, whose own folder of dumps would be one place more."""

    def installed(self, package: str) -> str:
        return ""


def asked(plan: PlannedJob, machine: Machine | None = None) -> tuple[Storage, Verdict]:
    """What ``unhang check --only storage`` sees and says."""
    check = next(check for check in ALL_INSPECTIONS if check.name == "storage")
    situation, gaps = inspect_node(machine or Bare(environment={"PATH": os.environ["PATH"]}), plan, [check])
    seen = situation.found(Storage)
    assert seen is not None
    return seen, judge([situation], ["storage"], gaps)


def judged(*measured: StorageMeasurement, places: tuple[JobPath, ...] = ()) -> list[Finding]:
    """What the rules find in these measurements."""
    return list(judgement(*measured, places=places).findings)


def judgement(*measured: StorageMeasurement, places: tuple[JobPath, ...] = (), limit_s: float = 600.0) -> Verdict:
    """What the rules say to these measurements, all on one file system of a job that logs and saves there."""
    here = places or (JobPath("/work/out", "checkpoints", folder="/work/out", exists=True, writable=True, device="1"),)
    results = {
        Storage: InspectionResult(Storage(here, measured)),
        Timers: InspectionResult(Timers((Timer("collective", limit_s, "t"),))),
    }
    return judge([NodeInspection("h", results=results)], ["storage"])


@contextlib.contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *words, str(folder)], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        pytest.skip(f"this machine does not mount {' '.join(words)}: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], timeout=20, check=True)


def on_a_disk(tmp_path: Path, *options: str) -> contextlib.AbstractContextManager[Path]:
    """A disk of its own, in a file."""
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(48 << 20)
    if shutil.which("mkfs.ext2") is None:
        pytest.skip("there is no mkfs.ext2")
    subprocess.run(["mkfs.ext2", "-q", "-F", str(image)], timeout=20, check=True)
    return mounted(tmp_path / "mounted", "-o", ",".join(("loop", *options)), str(image))


def of(verdict: Verdict, path: Path) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.subject == str(path)]


def test_a_healthy_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "shard.bin").write_bytes(b"x" * 200_000)
    before = sorted(path.name for path in tmp_path.rglob("*"))

    command = ("torchrun", "train.py", "--output_dir", str(tmp_path / "out"), "--data_dir", str(tmp_path / "data"))
    seen, verdict = asked(PlannedJob(command))

    assert {one.step for one in seen.measured} == {"appends", "write", "files", "reads"}
    assert all(one.seconds and not one.trouble for one in seen.measured)
    assert seen.bytes_written <= collect_storage.MAX_BYTES
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert all(finding.severity is Severity.NOTE for finding in verdict.findings)
    assert any("removed again" in str(checked.what) for checked in verdict.checked)


def test_folders_come_from_the_command_its_files_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("stage: sft\noutput_dir: saves/one\nlogging_dir: s3://bucket/logs\n")
    environment = {"TORCH_FR_DUMP_TEMP_FILE": "/scratch/dumps/rank_", "WANDB_DIR": "~/wandb", "HOME": "/home/me"}
    machine = Machine(environment=environment)
    machine.folder = "/work"

    plan = PlannedJob(
        ("llamafactory-cli", "train", str(tmp_path / "run.yaml"), "--dataset", "org/name"), paths=("mnt",)
    )
    found = {(place.path, place.use) for place in find_job_paths(machine, plan)}

    assert found == {
        ("/work/mnt", "named"),
        ("/work/saves/one", "checkpoints"),
        ("/scratch/dumps", "dumps"),
        ("/home/me/wandb", "logs"),
    }


def test_torchtitan_s_log_lies_below_its_dump_folder_where_it_writes_one(tmp_path: Path) -> None:
    def uses(log: str, folder: str) -> set[tuple[str, str]]:
        (tmp_path / "t.toml").write_text(
            f'[job]\ndump_folder = "{folder}"\n[metrics]\nenable_tensorboard = {log}\nsave_tb_folder = "tb"\n'
        )
        plan = PlannedJob(("torchrun", "t.py", "--job.config_file", str(tmp_path / "t.toml")))
        return {(place.path, place.use) for place in find_job_paths(Bare(environment={}), plan)}

    assert ("/mnt/runs/tb", "logs") in uses("true", "/mnt/runs")
    assert ("/mnt/runs/tb", "logs") not in uses("false", "/mnt/runs")
    assert not {use for _, use in uses("true", "s3://runs")} & {"logs"}  # another question answers that


def test_a_log_on_a_file_system_that_cannot_append_slows_the_job() -> None:
    place = JobPath("/mnt/s3/tb", "logs", folder="/mnt/s3/tb", exists=True, writable=True, device="1", type="fuse.s3fs")

    (finding,) = judged(places=(place,))

    assert (finding.subject, finding.severity) == ("/mnt/s3/tb", Severity.SLOWS)
    assert "writes the whole object again" in str(finding.summary)
    assert "BackgroundWriter" in " ".join(str(remedy.change) for remedy in finding.remedies)


def test_where_nothing_is_named_the_current_folder_is_tried(tmp_path: Path) -> None:
    machine = Bare(environment={})
    machine.folder = str(tmp_path)

    seen, _ = asked(PlannedJob(), machine)

    assert [(place.path, place.use) for place in seen.places] == [(str(tmp_path), "current")]
    assert {one.folder for one in seen.measured} == {str(tmp_path)}


def test_dumps_go_where_torch_puts_them_and_a_folder_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    machine = Bare(environment={"HOME": "/home/me"})

    def dumps(torch: str) -> list[str]:
        return [
            place.path for place in find_job_paths(machine, PlannedJob(assume={"torch": torch})) if place.use == "dumps"
        ]

    assert dumps("2.4") == ["/tmp"]
    assert dumps("2.13") == ["/home/me/.cache/torch"]
    missing = Bare(environment={"PATH": os.environ["PATH"], "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "gone/rank_")})
    machine_says = asked(PlannedJob(("t.py", "--output_dir", str(tmp_path))), missing)[1]
    assert [f.severity for f in of(machine_says, tmp_path / "gone") if "no dump" in str(f.summary)] == [Severity.NOTE]


def test_data_that_is_not_there_stops_the_job_and_an_output_folder_that_is_not_there_does_not(tmp_path: Path) -> None:
    command = ("torchrun", "t.py", "--data_dir", str(tmp_path / "gone"), "--output_dir", str(tmp_path / "new/deep"))

    _, verdict = asked(PlannedJob(command))

    assert [finding.severity for finding in of(verdict, tmp_path / "gone")] == [Severity.STOPS]
    assert not [f for f in of(verdict, tmp_path / "new/deep") if f.severity is not Severity.NOTE]


@root
def test_memory_is_fast_and_no_place_for_checkpoints(tmp_path: Path) -> None:
    with mounted(tmp_path / "memory", "-t", "tmpfs", "-o", "size=300m", "tmpfs") as folder:
        seen, verdict = asked(PlannedJob(("torchrun", "t.py", "--output_dir", str(folder))))

    assert {place.type for place in seen.places} == {"tmpfs"}
    assert any("memory" in str(finding.summary) for finding in of(verdict, folder))
    assert seen.bytes_written <= 300 * collect_storage.MAX_SHARE * (1 << 20) + (1 << 20)


@root
def test_a_full_file_system_stops_the_job(tmp_path: Path) -> None:
    with mounted(tmp_path / "full", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as folder:
        (folder / "filling").write_bytes(b"x" * (1 << 20))
        _, verdict = asked(PlannedJob(("torchrun", "t.py", "--output_dir", str(folder))))
        assert [path.name for path in folder.iterdir()] == ["filling"]

    stops = [finding for finding in of(verdict, folder) if finding.severity is Severity.STOPS]
    assert len(stops) == 1
    assert "is full" in str(stops[0].summary)


@root
def test_a_read_only_file_system_stops_a_job_that_writes_there_and_none_that_reads(tmp_path: Path) -> None:
    with on_a_disk(tmp_path, "ro") as folder:
        _, writes = asked(PlannedJob(("torchrun", "t.py", "--output_dir", str(folder))))
        _, reads = asked(PlannedJob(("torchrun", "t.py", "--data_dir", str(folder))))

    assert any("is not writable" in str(finding.summary) for finding in of(writes, folder))
    assert not of(reads, folder)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nobody can wait for a frozen process
@root
def test_a_frozen_file_system_is_named_and_costs_its_limit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_storage, "STEP_S", 1.0)
    if shutil.which("fsfreeze") is None:
        pytest.skip("there is no fsfreeze")
    with on_a_disk(tmp_path) as folder:
        subprocess.run(["fsfreeze", "-f", str(folder)], timeout=20, check=True)
        thaw = threading.Timer(120, subprocess.run, [["fsfreeze", "-u", str(folder)]])
        thaw.start()
        try:
            seen, verdict = asked(PlannedJob(("torchrun", "t.py", "--output_dir", str(folder))))
            frozen = thaw.is_alive()
        finally:
            thaw.cancel()
            subprocess.run(["fsfreeze", "-u", str(folder)], timeout=20, check=True)
        left = wait_until_gone(folder)

    assert [one.step for one in seen.measured if one.hung] == ["appends"]
    assert frozen, "it waited until the disk thawed"
    assert any("does not respond" in str(finding.summary) for finding in of(verdict, folder))
    assert left == ["lost+found"]


def wait_until_gone(folder: Path) -> list[str]:
    """What lies in ``folder`` once the killed steps have ended."""
    for _ in range(1200):
        left = sorted(path.name for path in folder.iterdir())
        if left == ["lost+found"]:
            break
        time.sleep(0.05)
    return left


@root
def test_a_disk_that_is_throttled_is_slow_for_logs(tmp_path: Path) -> None:
    throttle = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")
    if not throttle.is_file():
        pytest.skip("this kernel offers no blkio throttling")
    group = throttle.parent / f"unhang-test-{os.getpid()}"
    with on_a_disk(tmp_path) as folder:
        device = folder.stat().st_dev
        group.mkdir()
        try:
            (group / throttle.name).write_text(f"{os.major(device)}:{os.minor(device)} 16")
            script = "import os,sys; open(sys.argv[1],'w').write(str(os.getpid())); os.execv(sys.argv[2],sys.argv[2:])"
            words = [
                sys.executable,
                "-c",
                "from unhang.cli.main import main; main()",
                "check",
                "--only",
                "storage",
                "--format",
                "json",
            ]
            words += ["--", "torchrun", "t.py", "--logging_dir", str(folder)]
            done = subprocess.run(
                [sys.executable, "-c", script, str(group / "cgroup.procs"), *words],
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
        finally:
            wait_until_gone(folder)
            group.rmdir()
    found = [one for one in json.loads(done.stdout)["findings"] if one["subject"] == str(folder)]

    assert any("A synced append" in one["summary"] and one["remedies"] for one in found), (found, done.stderr)


class Stalls(Bare):
    """A machine whose program for one step never comes back by itself."""

    def __init__(self, step: str) -> None:
        super().__init__(environment={"PATH": os.environ["PATH"]})
        self._step = step

    def program(
        self, code: Path | str, words: Sequence[str], limit_s: float, told: Mapping[str, str] | None = None
    ) -> InspectionResult[CommandOutput]:
        if words[0] == self._step:
            return self.command(["sleep", "600"], limit_s=0.2 if self._step == "inspect" else limit_s)
        return super().program(code, words, limit_s, told)


def test_a_mount_that_does_not_answer_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_storage, "INSPECT_S", 0.2)
    command = ("t.py", "--output_dir", str(tmp_path / "a"), "--logging_dir", str(tmp_path / "b"))

    seen, verdict = asked(PlannedJob(command), Stalls("inspect"))  # each look would take longer than a test may

    assert all(place.hung for place in seen.places)
    assert {finding.subject for finding in verdict.findings} == {str(tmp_path / "a"), str(tmp_path / "b")}
    assert not seen.measured


def test_what_a_killed_step_left_behind_is_removed(tmp_path: Path) -> None:
    own = tmp_path / f"{storage_trial.PREFIX}{os.getpid()}"
    own.mkdir()
    (own / "0").touch()

    assert Machine().program(Path(storage_trial.__file__), ["clean", str(tmp_path)], 8.0).found is not None

    assert not own.exists()


@pytest.mark.parametrize(
    ("measured", "severity"),
    [
        (StorageMeasurement("appends", "/work/out", "1", (0.004,) * 9, 2304), None),
        (StorageMeasurement("appends", "/work/out", "1", (0.09,) * 9, 2304), Severity.NOTE),
        (StorageMeasurement("appends", "/work/out", "1", (0.6,) * 3, 768), Severity.SLOWS),
        (StorageMeasurement("files", "/work/out", "1", (0.001,) * 9), None),
        (StorageMeasurement("files", "/work/out", "1", (0.03,) * 9), Severity.NOTE),
        (StorageMeasurement("files", "/work/out", "1", (0.5,)), Severity.SLOWS),
    ],
)
def test_how_slow_is_slow(measured: StorageMeasurement, severity: Severity | None) -> None:
    found = judged(measured)

    assert [finding.severity for finding in found] == ([] if severity is None else [severity])
    assert all(finding.certainty is Certainty.POSSIBLE and finding.because for finding in found)


def test_of_a_checkpoint_only_what_fits_into_the_limit_is_said_for_nobody_has_told_its_size() -> None:
    measured = StorageMeasurement("write", "/work/out", "1", (1.0,), 708_000_000)

    short = judgement(measured, limit_s=10)

    assert short.findings == ()
    assert [str(gap.because) for gap in short.not_checked] == [
        "it can write 7.1 GB there in the 10 s that they wait; the checkpoint's size is not known yet"
    ]
    assert judgement(measured, limit_s=600).not_checked == ()


@pytest.mark.parametrize(("seconds", "severity"), [(0.01, None), (0.1, Severity.NOTE), (0.5, Severity.SLOWS)])
def test_reads_are_judged_by_the_workers_a_rank_needs(seconds: float, severity: Severity | None) -> None:
    data = (JobPath("/data", "data", folder="/data", exists=True, device="1"),)

    found = judged(StorageMeasurement("reads", "/data", "1", (seconds,) * 5, 5 << 16), places=data)

    assert [finding.severity for finding in found] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("kind", "use", "words"),
    [
        ("nfs4", "logs", "NFS"),
        ("tmpfs", "checkpoints", "memory"),
        ("overlay", "checkpoints", "layer"),
        ("ext4", "logs", ""),
    ],
)
def test_a_file_system_that_does_not_fit_its_use_is_a_note(kind: str, use: str, words: str) -> None:
    place = JobPath(
        "/p", use, folder="/p", exists=True, writable=True, size=1 << 50, free=1 << 49, type=kind, device="1"
    )

    found = judged(places=(place,))

    assert [words in str(finding.summary) for finding in found] == ([True] if words else [])
    assert all(finding.severity is Severity.NOTE for finding in found)


def test_no_type_of_file_system_stands_twice() -> None:
    types = [kind for row in read_rows("file_systems.toml", "file_system", FileSystemRow) for kind in row.types]

    assert len(types) == len(set(types))
