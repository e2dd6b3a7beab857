"""The same ``unhang run`` line twice on one machine, as two nodes: one verdict, told on both terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.watch.signal_programs import RUN
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.history.database import open_history
from unhang.history.place import history_place
from unhang.history.unsent import read_unsent, waiting

pytestmark = [pytest.mark.job, pytest.mark.live, pytest.mark.timeout(240)]
JOB = """
import os, signal, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(100_000):
    dist.all_reduce(torch.ones(2))
    time.sleep(0.02)
    if step == 150 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_two_nodes_give_one_verdict(tmp_path: Path) -> None:
    """They meet in a store of their own: every address of the job is on loopback, which needs no token."""
    (tmp_path / "train.py").write_text(JOB)
    run, port = tmp_path / "run", free_port()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    fronts = []
    for number in (0, 1):
        words = [*RUN, "--dir", str(run), "--", *launcher, "--node-rank", str(number), str(tmp_path / "train.py")]
        with (tmp_path / f"printed-{number}").open("wb") as printed:
            environment = {**os.environ, "UNHANG_NODE_NAME": f"h{number}", "XDG_STATE_HOME": str(tmp_path)}
            fronts.append(subprocess.Popen(words, stdout=printed, stderr=printed, env=environment))
    try:
        wait_for(run / "h1" / "verdict.json", tmp_path)
    finally:
        for front in fronts:
            front.send_signal(signal.SIGTERM)
        for rank in ranks_of(run):
            with suppress(ProcessLookupError):
                os.kill(rank, signal.SIGKILL)
        for front in fronts:
            front.wait(60)

    verdict = json.loads((run / "h0" / "verdict.json").read_bytes())
    first = verdict["findings"][0]
    assert (first["cause"], first["ranks"], verdict["ranks_missing"]) == ("rank-frozen", [1], [])
    assert first["nodes"] == ["h1"], "the two share a host name"
    assert json.loads((run / "h1" / "verdict.json").read_bytes())["findings"][0]["cause"] == "rank-frozen"
    told = [(tmp_path / f"printed-{number}").read_text() for number in (0, 1)]
    assert "HANG  Rank 1 is stopped" in told[0]
    assert "HANG" not in told[1]
    assert "verdict of node h0: rank-frozen" in told[1]
    assert verdict["noticed_after_s"] > 0
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    with open_history(place) as history:
        kept = [*history.runs(), *(unsent.run for unsent in map(read_unsent, waiting(place)) if unsent is not None)]
    assert [one.hosts for one in kept] == [("h0", "h1")], "the first node's watcher records the run, and it alone"
    for folder in (run, run / "h0"):
        again = diagnose(build_facts(read_evidence([str(folder)])))
        assert (again.findings[0].cause.value, again.findings[0].ranks) == ("rank-frozen", (1,))


def wait_for(path: Path, place: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        printed = "\n".join(file.read_text() for file in place.glob("printed-*"))
        assert time.monotonic() < deadline, printed
        time.sleep(0.2)


def ranks_of(run: Path) -> list[int]:
    found = []
    for manifest in run.glob("*/bundle.json"):
        with suppress(OSError, ValueError):
            found += [process["pid"] for process in json.loads(manifest.read_bytes())["processes"]]
    return found
