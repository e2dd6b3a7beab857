"""``unhang compare`` as users type it: what it says, its exit codes, and a sentence for everything it cannot do."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from tests import command
from tests.trace_samples import training
from unhang.cli.main import main
from unhang.watch.pace.rank_series import SERIES_PATH
from unhang.wire.documents.run_settings import RunSettings


def traces(
    folder: Path, name: str, *, work_ms: float = 2.0, ranks: int = 2, packed: bool = False, first: int = 0
) -> Path:
    """A folder of traces; rank 0 writes for ``work_ms``, the others wait for it."""
    for rank in range(ranks):
        sample = (
            training(rank, work_ms=work_ms, first=first)
            if rank == 0
            else training(rank, work_ms=0.001, wait_ms=3 + work_ms)
        )
        if rank and first:
            sample = training(rank, work_ms=0.001, wait_ms=3 + work_ms, first=first)
        sample.write(folder / name / f"rank{rank}_trace.json{'.gz' if packed else ''}")
    return folder / name


def run_folder(folder: Path, *, slow_from: int = 10**9, steps: int = 2000, settings: RunSettings | None = None) -> Path:
    """A run of two ranks, 10 ms a step; from ``slow_from`` on rank 0 writes 20 ms more."""
    path = folder / SERIES_PATH
    path.parent.mkdir(parents=True)
    lines: list[dict[str, object]] = [
        {"schema": "unhang.series/1", "width_s": 1.0},
        {"site": 1, "place": ["/job/train.py", 40, "log"]},
        {"site": 2, "place": ["/job/train.py", 30, "step"]},
    ]
    for at in range(0, steps, 50):
        slow = at >= slow_from
        by = 1 + 0.02 * ((at // 50 * 7919) % 7 - 3) / 3
        took = 50 * (0.030 if slow else 0.010) * by
        for rank in (0, 1):
            write = (40 if slow else 12) if rank == 0 else 0
            doing = [[1, "log", False, write]] * bool(write)
            doing += [[2, "communication", True, 60 - write - 8], [2, "compute", False, 8]]
            row = {"rank": rank, "step": at + 50, "steps": 50, "took_s": took, "looks": 60, "doing": doing}
            lines.append(row)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "run.json").write_text('{"schema": "unhang.run/1", "command": ["python", "train.py"]}')
    if settings is not None:
        (folder / "settings.json").write_bytes(msgspec.json.encode(settings))
    return folder


def test_two_folders_of_traces(tmp_path: Path) -> None:
    traces(tmp_path, "a"), traces(tmp_path, "b", work_ms=20, packed=True)

    told = command.unhang("compare", "a", "b", folder=tmp_path)

    assert told.returncode == 1, told.stderr
    assert told.stdout.startswith("SLOWER  Steps take 34 ms instead of 16 ms")
    assert "rank 0 spends 18 ms more in write" in " ".join(told.stdout.split())
    assert "Rank 1 waits for rank 0" in told.stdout


def test_the_same_trace_twice_is_no_difference(tmp_path: Path) -> None:
    traces(tmp_path, "a")

    told = command.unhang("compare", "a/rank0_trace.json", "a/rank0_trace.json", folder=tmp_path)

    assert (told.returncode, told.stdout[:4]) == (0, "SAME")


def test_two_spans_of_one_run(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", slow_from=1800)

    told = command.unhang("compare", "run", "--steps", "100:1700", "--against", "1850:2000", folder=tmp_path)

    assert told.returncode == 1, told.stderr
    assert "SLOWER  Steps take 30" in told.stdout
    assert "log (train.py:40)" in told.stdout
    assert "run [1850:2000]: steps 1851-2000" in told.stdout


def test_two_spans_of_equal_pace(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", slow_from=1800)

    told = command.unhang("compare", "run", "--steps", "100:900", "--against", "1000:1700", folder=tmp_path)

    assert (told.returncode, told.stdout[:4]) == (0, "SAME")


def test_two_ranks_of_one_run(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", slow_from=0)

    told = command.unhang("compare", "run", "--ranks", "0", "--against-ranks", "1", folder=tmp_path)

    assert told.returncode == 1
    assert told.stdout.startswith("DIFFERENT  Rank 0 spends")
    assert "log (train.py:40)" in told.stdout


def test_spans_of_a_folder_of_traces_taken_at_different_steps(tmp_path: Path) -> None:
    early, late = traces(tmp_path, "early", first=100), traces(tmp_path, "late", first=1900, work_ms=30)
    for folder in (early, late):
        shutil.move(folder, tmp_path / "all" / folder.name)

    told = command.unhang("compare", "all", "--steps", "100:200", "--against", "1900:2000", folder=tmp_path)

    assert told.returncode == 1, told.stderr
    assert "write (train.py:7)" in told.stdout


def test_two_runs_with_what_was_changed(tmp_path: Path) -> None:
    before = RunSettings(versions={"torch": "2.7.1"}, environment={"NCCL_DEBUG": "WARN"})
    after = RunSettings(versions={"torch": "2.7.1"}, environment={"NCCL_P2P_DISABLE": "1"})
    run_folder(tmp_path / "a", settings=before)
    run_folder(tmp_path / "b", slow_from=0, settings=after)

    told = command.unhang("compare", "a", "b", "--format", "json", folder=tmp_path)

    found = json.loads(told.stdout)
    assert (told.returncode, found["schema"], found["kind"]) == (1, "unhang.comparison/1", "runs")
    assert {change["name"] for change in found["changes"]} == {"NCCL_DEBUG", "NCCL_P2P_DISABLE"}
    assert found["grew"][0]["where"]["line"] in (30, 40)
    assert found["before"]["steps"]["last_step"] == 2000


def test_runs_recorded_before_there_were_settings_are_compared_as_far_as_they_go(tmp_path: Path) -> None:
    for name, torch in (("a", "2.7.1"), ("b", "2.8.0")):
        (tmp_path / name).mkdir()
        manifest = {"schema": "unhang.bundle/1", "torch_version": torch, "world_size": 2}
        (tmp_path / name / "bundle.json").write_text(json.dumps(manifest))

    told = command.unhang("compare", "a", "b", folder=tmp_path)

    assert told.returncode == 3
    assert "2.7.1 → 2.8.0" in told.stdout
    assert "no settings.json" in " ".join(told.stdout.split())
    assert "no series of its ranks" in " ".join(told.stdout.split())


def test_pipes_in_a_run_folder_are_not_waited_for(tmp_path: Path) -> None:
    run_folder(tmp_path / "a")
    for name in ("settings.json", "bundle.json"):
        os.mkfifo(tmp_path / "a" / name)

    assert command.unhang("compare", "a", "a", folder=tmp_path).returncode == 0


@pytest.mark.parametrize("files", [("run.json",), ("run.json", "settings.json")])
def test_folders_without_steps_are_undecided(tmp_path: Path, files: tuple[str, ...]) -> None:
    written = {"run.json": b"{}", "settings.json": msgspec.json.encode(RunSettings(versions={"torch": "2.7.1"}))}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_bytes(written[file])

    told = command.unhang("compare", "a", "b", folder=tmp_path)

    assert told.returncode == 3
    assert told.stdout.startswith("UNDECIDED  Steps cannot be compared")


def test_a_trace_of_one_rank_says_whose_trace_is_missing(tmp_path: Path) -> None:
    for name, work in (("a", 2.0), ("b", 20.0)):
        shutil.rmtree(traces(tmp_path, name, work_ms=work) / "none", ignore_errors=True)
        (tmp_path / name / "rank0_trace.json").unlink()

    told = command.unhang("compare", "a", "b", folder=tmp_path)

    assert "without data here: rank 0" in " ".join(told.stdout.split())


def test_in_chinese_and_as_markdown(tmp_path: Path) -> None:
    traces(tmp_path, "a"), traces(tmp_path, "b", work_ms=20)

    told = command.unhang("compare", "a", "b", "--format", "markdown", "--lang", "zh", folder=tmp_path)

    assert told.stdout.startswith("**变慢**")
    assert "| +18 ms | `write (train.py:7) → built-in sleep` |" in told.stdout


def test_to_a_file_only_the_owner_may_read(tmp_path: Path) -> None:
    traces(tmp_path, "a")

    command.unhang("compare", "a", "a", "--out", "answer.txt", folder=tmp_path)

    assert (tmp_path / "answer.txt").read_text().startswith("SAME")
    assert (tmp_path / "answer.txt").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "nowhere"], "nowhere does not exist"),
        (["a", "a", "a"], "one or two paths"),
        (["a"], "choose steps or ranks"),
        (["a", "a", "--against", "1:2"], "within one run"),
        (["a", "--against", "5:9"], "--steps is missing"),
        (["a", "--against-ranks", "1"], "--ranks is missing"),
        (["a", "--steps", "0:5", "--against", "7000:8000"], "it has 0:11"),
        (["a", "--steps", "5:1", "--against", "7:8"], "comes before the first"),
        (["a", "--steps", "five", "--against", "7:8"], "expects steps like 100:200"),
        (["a", "--ranks", "0", "--against-ranks", "9"], "none of these ranks; it has 0, 1"),
        (["a", "--ranks", "0", "--against-ranks", "7-1"], "expects ranks like"),
        (["a", "a/note.txt"], "is not a torch.profiler trace"),
        (["a", "empty"], "contains neither a run"),
        (["a", "a", "--lang", "xx"], "no language"),
    ],
)
def test_bad_usage_is_one_sentence_and_2(
    tmp_path: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traces(tmp_path, "a")
    (tmp_path / "a" / "note.txt").write_text("hello\n")
    (tmp_path / "empty").mkdir()

    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit) as left:
        main(["compare", *words])

    told = capsys.readouterr().err
    assert left.value.code == 2
    assert said in told
    assert "internal error" not in told


def test_torn_traces_are_read_as_far_as_they_go_and_said(tmp_path: Path) -> None:
    folder = traces(tmp_path, "a")
    torn = folder / "rank1_trace.json"
    torn.write_bytes(torn.read_bytes()[:-900])

    told = command.unhang("compare", "a", "a", folder=tmp_path)

    assert told.returncode == 0
    assert "is cut short" in told.stdout


def test_a_packed_trace_that_was_cut_short_is_not_passed_over_in_a_folder(tmp_path: Path) -> None:
    folder = traces(tmp_path, "a")
    plain = folder / "rank1_trace.json"
    (folder / "rank1_trace.json.gz").write_bytes(gzip.compress(plain.read_bytes())[:-200])
    plain.unlink()

    told = command.unhang("compare", "a", "a", folder=tmp_path)

    assert "rank1_trace.json.gz is cut short" in told.stdout


def test_what_cannot_be_read_at_all_is_2(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "rank0_trace.json").write_text('{"schemaVersion": 1, "traceEvents": []}')

    told = command.unhang("compare", "a", "a", folder=tmp_path)

    assert told.returncode == 2
    assert "without a single event" in told.stderr


def test_names_from_a_trace_cannot_reach_the_terminal_as_they_are(tmp_path: Path) -> None:
    for name, work in (("a", 2.0), ("b", 30.0)):
        sample = training(work_ms=work)
        for event in sample.events:
            event["name"] = event["name"].replace("<built-in function sleep>", "evil\x1b[2J\u202e op")
        sample.write(tmp_path / name / "rank0_trace.json")

    told = command.unhang("compare", "a", "b", folder=tmp_path)

    assert "evil" in told.stdout
    assert not {"\x1b", "\u202e"} & set(told.stdout)


def test_for_sharing_paths_and_hosts_are_renamed(tmp_path: Path) -> None:
    before = RunSettings(environment={"LD_LIBRARY_PATH": "/home/alice/lib/one"})
    run_folder(tmp_path / "a", settings=before)
    run_folder(
        tmp_path / "b", settings=msgspec.structs.replace(before, environment={"LD_LIBRARY_PATH": "/home/alice/lib/two"})
    )

    told = command.unhang("compare", "a", "b", "--redact", "--format", "json", folder=tmp_path)

    assert "alice" not in told.stdout


def test_diagnose_says_what_a_trace_is_for(tmp_path: Path) -> None:
    folder = traces(tmp_path, "a")

    told = command.unhang("diagnose", os.fspath(folder))

    assert told.returncode == 2
    assert "unhang compare" in told.stderr
