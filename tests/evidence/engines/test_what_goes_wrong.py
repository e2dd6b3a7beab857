"""Workers that end, files that end workers, clusters that cannot be used, Ctrl-C: told, and nothing is left behind."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unhang as package
from tests.command import unhang
from tests.evidence.engines.clusters import Killer, dask_cluster, descendants, has_open
from tests.waiting import wait_for
from unhang.errors import MissingExtra
from unhang.evidence.engines import local
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.inputs import WORTH_SPREADING, read_evidence
from unhang.evidence.worker_process import ItemUnpickler

OUT_OF_MEMORY = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 10, in <module>
[rank1]:     loss.backward()
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job of which rank 2's log is so large that processes are started, and takes long to read; most is a hole."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "rank0.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    (folder / "rank1.log").write_text(OUT_OF_MEMORY)
    with (folder / "rank2.log").open("w") as file:
        file.write("step 1 loss 2.0\n")
        file.truncate(WORTH_SPREADING)
    return folder


def started(*words: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "if __name__ == '__main__':\n    from unhang.cli.main import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )


@pytest.fixture
def reading(job: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """``unhang diagnose`` with an engine that it starts itself; all that it started is over in the end."""
    if request.param != "local":
        pytest.importorskip({"dask": "distributed"}.get(request.param, request.param))
    process = started("diagnose", str(job), "--format", "json", "--engine", request.param)
    try:
        yield process
    finally:
        left = descendants(process.pid)
        process.kill()
        process.communicate(timeout=10)
        for one in left:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue


ENGINES = ["local", pytest.param("dask", marks=pytest.mark.live), pytest.param("ray", marks=pytest.mark.live)]


@pytest.mark.parametrize("reading", ENGINES, indirect=True)
def test_a_file_that_ends_whoever_reads_it_is_skipped_and_said(reading: subprocess.Popen[bytes], job: Path) -> None:
    killer = Killer(reading.pid, job / "rank2.log")
    killer.start()
    try:
        answer, errors = reading.communicate(timeout=150)
    finally:
        killer.stop()

    assert killer.killed
    assert reading.returncode == 1, errors.decode()
    verdict = json.loads(answer)
    assert verdict["findings"][0]["cause"] == "gpu-oom"
    assert [Path(one["source"]).name for one in verdict["unread"]] == ["rank2.log"]
    assert re.search("SIGKILL|ended the worker [2-9] times", verdict["unread"][0]["reason"])
    assert verdict["unread"][0]["reason"].endswith("it was skipped")


@pytest.mark.parametrize("reading", ENGINES, indirect=True)
def test_ctrl_c_ends_what_was_started(reading: subprocess.Popen[bytes], job: Path) -> None:
    wait_for(lambda: any(has_open(one, job / "rank2.log") for one in descendants(reading.pid)))
    started_by_it = descendants(reading.pid)

    reading.send_signal(signal.SIGINT)

    _, errors = reading.communicate(timeout=60)
    assert reading.returncode == 130, errors.decode()
    assert errors.decode() in ("", "Stopped.\n")
    wait_for(lambda: not [one for one in started_by_it if _runs(one)], limit_s=20)


def _runs(process: int) -> bool:
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return told.rpartition(")")[2].split()[0] != "Z"


def test_a_worker_with_another_unhang_is_refused(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    other = tmp_path / "other"
    shutil.copytree(Path(package.__file__).parent, other / "unhang", ignore=shutil.ignore_patterns("__pycache__"))
    code = (other / "unhang" / "__init__.py").read_text()
    (other / "unhang" / "__init__.py").write_text(code.replace(package.__version__, "0.0.0.of.another"))
    path = os.pathsep.join(filter(None, (str(other), os.environ.get("PYTHONPATH"))))

    with dask_cluster(tmp_path, workers=1, environment={"PYTHONPATH": path}) as address:
        told = unhang("diagnose", job, "--engine", "dask", "--engine-address", address)

    assert told.returncode == 2
    assert "has unhang 0.0.0.of.another, and this is unhang " + package.__version__ in told.stderr
    assert len(told.stderr.splitlines()) == 2


def test_an_address_where_nobody_answers(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    told = unhang("diagnose", job, "--engine", "dask", "--engine-address", tmp_path / "scheduler.json")

    assert told.returncode == 2
    assert f"no Dask scheduler answers at {tmp_path / 'scheduler.json'}" in told.stderr
    assert len(told.stderr.splitlines()) == 2


def test_an_address_for_this_machines_own_processes(job: Path) -> None:
    told = unhang("diagnose", job, "--engine-address", "tcp://127.0.0.1:1")

    assert told.returncode == 2
    assert "--engine-address needs --engine dask or --engine ray" in told.stderr


@pytest.mark.parametrize(("engine", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_a_library_that_is_missing(job: Path, engine: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra) as caught:
        read_evidence([str(job)], engine=engine)
    assert caught.value.next_step == f"pip install {library}"


def test_processes_answer_with_items_only() -> None:
    """What a process sends is not believed to be what was asked for."""

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, ("true",)

    good = EvidencePart(seen={"a.log"})
    assert ItemUnpickler(io.BytesIO(pickle.dumps(good)), local._ANSWER_TYPES).load() == good
    with pytest.raises(pickle.UnpicklingError, match=r"posix\.system"):
        ItemUnpickler(io.BytesIO(pickle.dumps([good, Bomb()])), local._ANSWER_TYPES).load()
