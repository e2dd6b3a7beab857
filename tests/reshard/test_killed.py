"""Killed at any moment and called again, the work goes on, and every byte is the same."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import unhang
from tests.reshard.pictures import write_table
from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import ReadOptions
from unhang_reshard.reshard import ReshardOptions, reshard

pytest.importorskip("webdataset")
ORDER = ReshardOptions((2,), workers=2, per_shard=5)

KILLED = """
import os, signal, sys, time
from pathlib import Path
import webdataset.writer
from unhang_reshard.formats import images; from unhang_reshard import survey
from unhang_reshard.reshard import ReshardOptions, reshard
from unhang_reshard.formats.table_rows import ReadOptions
survey.SAVE_EVERY_S = 0.02
whole, look = images.read_file, images.check_file
images.read_file = lambda path: (time.sleep(0.002), whole(path))[1]
images.check_file = lambda path: (time.sleep(0.002), look(path))[1]
table, out = sys.argv[1], Path(sys.argv[2])
for number in range(60):
    child = os.fork()
    if child == 0:
        reshard([table], out, ReshardOptions((2,), workers=2, per_shard=5), ReadOptions())
        os._exit(0)
    time.sleep(0.03 + 0.01 * number)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(len(list(out.glob("*.tar"))), *(f"{path.name}:{path.stat().st_size}" for path in out.glob("*.tar")))
    if (out / "manifest.json").exists():
        break
"""


def sums(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir()) if path.is_file()
    }


def test_killed_again_and_again_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    table = write_table(tmp_path, 300, missing=frozenset(range(7, 300, 50)))
    once = reshard([str(table)], tmp_path / "once", ORDER, ReadOptions())
    assert once.even.shards > 50

    out = tmp_path / "killed"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(table), str(out)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rounds = [line.split() for line in ran.stdout.splitlines()]
    whole = {f"{path.name}:{path.stat().st_size}" for path in (tmp_path / "once").glob("*.tar")}
    assert all(set(files) <= whole for _, *files in rounds)  # a shard is there whole or not at all
    done = reshard([str(table)], out, ORDER, ReadOptions())

    assert done.went_on
    assert len({count for count, *_ in rounds}) >= 3
    assert sums(out) == sums(tmp_path / "once")
    assert not (out / ".unhang-reshard").exists()
    checked = subprocess.run(["sha256sum", "-c", "--quiet", "sha256sums.txt"], cwd=out, check=False)
    assert checked.returncode == 0


def test_a_shard_that_was_torn_or_lost_is_written_again(tmp_path: Path) -> None:
    table = write_table(tmp_path, 40)
    out = tmp_path / "out"
    reshard([str(table)], out, ORDER, ReadOptions())
    before = sums(out)
    journal = "".join(f'{{"name": "shard-{n:06d}.tar", "samples": 5, "bytes": 1, "sha256": ""}}\n' for n in range(2))
    (out / ".unhang-reshard").mkdir()
    (out / ".unhang-reshard" / "shards.jsonl").write_text(journal)
    (out / "manifest.json").rename(out / ".unhang-reshard" / "call.json")
    call = (out / ".unhang-reshard" / "call.json").read_text()
    import json

    (out / ".unhang-reshard" / "call.json").write_text(json.dumps(json.loads(call)["call"]))
    (out / "shard-000001.tar").write_bytes(b"torn")

    reshard([str(table)], out, ORDER, ReadOptions())

    assert sums(out) == before


def test_other_work_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    table = write_table(tmp_path, 40)
    reshard([str(table)], tmp_path / "out", ORDER, ReadOptions())

    with pytest.raises(UsageError, match=r"the work of another call: other .*ranks"):
        reshard([str(table)], tmp_path / "out", ReshardOptions((4,)), ReadOptions())
    with pytest.raises(UsageError, match="is not empty"):
        reshard([str(table)], tmp_path / "images", ORDER, ReadOptions())
    assert reshard([str(table)], tmp_path / "out", ReshardOptions((4,)), ReadOptions(), again=True).even.ranks == (4,)


def test_one_command_at_a_time_writes_a_folder(tmp_path: Path) -> None:
    table = write_table(tmp_path, 8)
    (tmp_path / "out" / ".unhang-reshard").mkdir(parents=True)
    with (tmp_path / "out" / ".unhang-reshard" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another unhang reshard is writing"):
            reshard([str(table)], tmp_path / "out", ORDER, ReadOptions())


def test_a_refused_call_leaves_finished_work_as_it_is(tmp_path: Path) -> None:
    table = write_table(tmp_path, 40)
    reshard([str(table)], tmp_path / "out", ORDER, ReadOptions())
    before = sorted(path.name for path in (tmp_path / "out").iterdir())

    with pytest.raises(UsageError, match="another call"):
        reshard([str(table)], tmp_path / "out", ReshardOptions((4,)), ReadOptions())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


def test_the_source_changed_in_between_is_another_call(tmp_path: Path) -> None:
    table = write_table(tmp_path, 40)
    reshard([str(table)], tmp_path / "out", ORDER, ReadOptions())
    table.write_text(table.read_text() + "images/1.png\tone more\n")

    with pytest.raises(UsageError, match="other sources"):
        reshard([str(table)], tmp_path / "out", ORDER, ReadOptions())


def test_the_command_says_the_lines_to_use_and_does_it_once(tmp_path: Path) -> None:
    write_table(tmp_path, 50, missing=frozenset({4}))
    words = ("reshard", "data.csv", "--to", "webdataset", "--ranks", "8", "--workers", "2")

    ran = unhang(*words, folder=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert f"--train-data '{tmp_path}/data-shards/shard-{{000000..000015}}.tar'" in ran.stdout
    assert "--train-num-samples 48 --workers 2" in ran.stdout
    assert "unhang.even_batches(loader)" in ran.stdout
    assert "line 6" in ran.stdout
    before = sums(tmp_path / "data-shards")
    assert "Resumed the work" in unhang(*words, folder=tmp_path).stdout
    assert sums(tmp_path / "data-shards") == before


def test_ranks_that_are_no_numbers_are_bad_usage(tmp_path: Path) -> None:
    ran = unhang("reshard", "data.csv", "--ranks", "all", folder=tmp_path)

    assert ran.returncode == 2
    assert "--ranks 8" in ran.stderr
