"""A stored machine whose job stands in a folder of its own."""

from __future__ import annotations

from pathlib import Path

from unhang.host.machine import StoredMachine


def test_named_files_are_relative_to_the_folder_of_the_job(tmp_path: Path) -> None:
    job = tmp_path / "root/work/job"
    (job / "conf").mkdir(parents=True)
    (job / "run.sh").write_text("torchrun t.py\n")
    (job / "conf/a.yaml").write_text("a: 1\n")
    (tmp_path / "machine.toml").write_text('folder = "/work/job"\n')
    machine = StoredMachine(tmp_path)

    assert machine.read_named("run.sh").found == "torchrun t.py\n"
    assert machine.for_job("conf", {}).read_named("a.yaml").found == "a: 1\n"
    assert machine.read_named("/work/job/conf/a.yaml").found == "a: 1\n"
