"""A dump torch itself writes, read beside pickle's own reading of it."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.dump_detection import looks_like_flight_recorder
from unhang.evidence.flight_recorder.dump_tail import read_tail
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.flight_recorder.ring_window import KEPT_GLOO_ENTRIES
from unhang.evidence.items import RecorderDump

PROGRAM = """
import json, pickle, sys, time
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

folder = sys.argv[1]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
group = dist.new_group([0])
for step in range(400):
    dist.all_reduce(torch.ones(4, 3))
    if step % 7 == 0:
        dist.broadcast(torch.ones(step + 1), 0, group=group)
dist.barrier()
def numbers(dump):
    return {key: {name: int(value) for name, value in one.items()} for key, one in dump["pg_status"].items()}

for _ in range(600):  # a call counts as completed a moment after it has returned: until both dumps are of one moment
    dump, text = _dump_fr_trace(True, True, False), _dump_fr_trace_json(True, False)
    told = numbers(pickle.loads(dump))
    done = all(one["last_completed_collective"] == one["last_enqueued_collective"] for one in told.values())
    if done and told == numbers(json.loads(text)):
        break
    time.sleep(0.1)
with open(f"{folder}/trace_rank_0", "wb") as file:
    file.write(dump)
with open(f"{folder}/trace_0.json", "w") as file:
    file.write(text.decode() if isinstance(text, bytes) else text)
dist.destroy_process_group()
"""


@pytest.mark.job
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_what_torch_writes_is_read_alike_in_every_way(tmp_path: Path) -> None:
    environment = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if "_dump_fr_trace" in done.stderr:
        pytest.skip("this torch cannot dump without CUDA")
    assert done.returncode == 0, done.stderr[-2000:]
    data = (tmp_path / "trace_rank_0").read_bytes()
    truth = pickle.loads(data)
    assert looks_like_flight_recorder(data[:65536])
    assert read_tail(data, SharedTables()) is not None, "torch's layout is no longer recognised: the slow way is taken"
    tail, whole = (
        read_recorder_dump(tmp_path / "trace_rank_0"),
        read_recorder_dump(tmp_path / "trace_rank_0", whole=True),
    )
    text = read_recorder_dump(tmp_path / "trace_0.json", whole=True)
    assert isinstance(tail, RecorderDump)
    assert isinstance(whole, RecorderDump)
    assert isinstance(text, RecorderDump)
    assert whole.entries.position.tolist() == [entry["collective_seq_id"] for entry in truth["entries"]]
    assert whole.entries.created_ns.tolist() == [entry["time_created_ns"] for entry in truth["entries"]]
    names = [whole.entries.stacks[index][0].function for index in whole.entries.stack]
    assert names == [entry["frames"][0]["name"] for entry in truth["entries"]]
    assert len(tail.entries) == KEPT_GLOO_ENTRIES
    for name in ("record_id", "position", "created_ns", "byte", "retired", "timeout_ms"):
        assert getattr(tail.entries, name).tolist() == getattr(whole.entries, name).tolist()[-KEPT_GLOO_ENTRIES:]
    assert text.entries.position.tolist() == whole.entries.position.tolist()
    assert text.entries.signatures == whole.entries.signatures
    assert text.status == whole.status == tail.status
