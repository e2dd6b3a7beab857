"""A rank that falls leaves the call it fell in, and its bell wakes our thread at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.inprocess.programs import Folders, base_environment, one_rank, run_python
from tests.inprocess.test_record_of_a_rank import TRAIN, asking, job, wait_for
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.items import RecorderDump

pytestmark = pytest.mark.job

CALLS = """
import pickle, sys
import torch, torch.distributed as dist
import torch._C._distributed_c10d as c10d
from unhang.inprocess.capture import last_call
from unhang.inprocess.capture.recorder import FlightRecorder, GroupNames
dist.init_process_group("gloo")
groups = GroupNames()
groups.add("0", 1, "cpu:gloo", wrapped=False)
recorder = FlightRecorder(groups)
KEYS = ("profiling_name", "collective_seq_id", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
def same(call):
    code = {}
    def look(frame, event, argument):
        if event == "return" and frame.f_code.co_name in last_call.COLLECTIVE_SIGNATURES:
            made = last_call.dump_of_call(last_call.frames_of_thread(frame), recorder)
            code.setdefault("made", made and pickle.loads(made)["entries"][-1])
    sys.setprofile(look)
    call()
    sys.setprofile(None)
    own = pickle.loads(c10d._dump_fr_trace(includeCollectives=True, includeStackTraces=False))["entries"][-1]
    made = code.get("made")
    print([made and made[key] == own[key] or (key, made and made[key], own[key]) for key in KEYS])
x, y = torch.ones(4, 3), torch.ones(4, 3, dtype=torch.int64)
same(lambda: dist.all_reduce(y))
same(lambda: dist.broadcast(x.bool(), 0))
same(lambda: dist.reduce(x.half(), 0))
same(lambda: dist.barrier())
same(lambda: dist.all_gather([torch.ones(4, 3)], x))
same(lambda: dist.all_gather_into_tensor(torch.ones(4, 3), x))
"""


def test_the_call_read_from_its_frame_is_what_the_recorder_says(folders: Folders, tmp_path: Path) -> None:
    program = tmp_path / "calls.py"
    program.write_text(CALLS)

    ran = run_python([str(program)], base_environment(**one_rank(), TORCH_FR_BUFFER_SIZE="100"))

    assert ran.out.splitlines() == [str([True] * 6)] * 6, ran.err


def test_a_call_that_was_refused_is_no_call(folders: Folders, tmp_path: Path) -> None:
    """It has no position of its own: that of the call before would be wrong."""
    program = tmp_path / "refused.py"
    program.write_text(
        "import time, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(3)); time.sleep(1)\n"
        "dist.broadcast(torch.ones(3).to_sparse(), 0)\n"
    )

    ran = run_python([str(program)], folders.environment(base_environment(**one_rank())))

    dump = read_recorder_dump(folders.run / "dumps" / "rank_0")
    assert ran.code == 1
    assert isinstance(dump, RecorderDump)
    assert len(dump.entries) == 1, "the whole dump, without a call made up"
    assert dump.entries.signatures[int(dump.entries.signature[-1])].input_sizes == ((3,),)


def test_partners_of_a_rank_that_dies_leave_their_last_call_and_their_lines(folders: Folders, tmp_path: Path) -> None:
    program = TRAIN + "import signal\ntrain(30)\nif dist.get_rank() == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
    program += "dist.all_reduce(torch.ones(7))\n"

    with job(program, folders, tmp_path, ranks=2) as started:
        started[0].wait(60)

    dump = read_recorder_dump(folders.run / "dumps" / "rank_0")
    said = json.loads((folders.run / "crash" / "rank_0.except").read_text().splitlines()[0])
    assert isinstance(dump, RecorderDump)
    assert dump.entries.signatures[int(dump.entries.signature[-1])].input_sizes == ((7,),)
    assert said["frames"][0] == [str(tmp_path / "train.py"), program.count("\n"), "<module>"]
    assert said["frames"][-1][2] == "all_reduce"


def test_the_bell_brings_a_dump_long_before_the_next_beat(folders: Folders, tmp_path: Path) -> None:
    control = asking(folders)
    control.now.beat_ms = 600_000
    control.publish()

    with job(TRAIN + "train(100_000)", folders, tmp_path, ranks=1):
        wait_for(folders, lambda views: views and list(folders.records.glob("*.bell")))
        wanted = control.ask_dump()
        wait_for(folders, lambda views: views[0].dump_served == wanted)


def test_a_rank_that_ends_well_takes_its_bell_down(folders: Folders, tmp_path: Path) -> None:
    with job(TRAIN + "train(3)\ndist.destroy_process_group()", folders, tmp_path, ranks=1) as started:
        started[0].wait(60)

    assert folders.view().ended
    assert list(folders.records.glob("*.bell")) == []


CLOSES = """
import os, time
time.sleep(0.4)
os.closerange(900, 2000)
mine = [os.dup2(os.open("/dev/null", os.O_RDONLY), number) for number in range(900, 904)]
time.sleep(1.5)
os._exit(0)
"""


def test_a_program_that_closes_every_file_costs_no_busy_loop(folders: Folders, tmp_path: Path) -> None:
    program = tmp_path / "closes.py"
    program.write_text("import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n" + CLOSES)

    ran = run_python([str(program)], folders.environment(base_environment(**one_rank())))

    view = folders.view()
    assert ran.code == 0, ran.err
    assert view.beats < 20
    assert view.beat_cost_ns < 0.2e9
