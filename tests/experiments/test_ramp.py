"""A ramp: which sizes there are, what counts as giving way, and real jobs that stall, fail or run out at a size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command import unhang
from unhang.errors import UsageError
from unhang.experiments.ramp import judged
from unhang.experiments.ramp_sizes import Growth, checked, command_at, growth, sizes
from unhang.experiments.ramp_trial import Trial

TRAIN = """
import sys, time
import torch, torch.distributed as dist
size, at, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    if size >= at and step == 2:
        if how == "memory":
            raise MemoryError("cannot allocate 64 GB")
        if how == "stall" and dist.get_rank() == 1:
            time.sleep(985)
        if how == "fall":
            raise ValueError("sequence is too long")
    if how == "slow" and size >= at:
        time.sleep(0.4)
    model(torch.randn(size, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.save(model.state_dict(), "model.pt")
"""


def ramp(folder: Path, how: str, *words: str) -> tuple[dict[str, Any], int]:
    (folder / "train.py").write_text(TRAIN)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = unhang(
        "ramp", "--steps", "3", "--limit", "60", "--format", "json", *words,
        "--", *launch, "train.py", "{batch}", "2", how,
        folder=folder, environment={"OMP_NUM_THREADS": "1"}, limit_s=200,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stderr
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f" 2 {how}" not in listed
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]
    return json.loads(ran.stdout), ran.returncode


def good(value: str, *steps: float, **more: Any) -> Trial:
    return Trial({"batch": value}, "good", 10.0, step_s=steps, **more)


def test_words_without_a_job() -> None:
    assert growth("batch=1,2,6") == Growth("batch", ("1", "2", "6"))
    assert growth("batch=1:6").values == ("1", "2", "4", "6")
    assert growth("zero=2,3@ds.json:zero_optimization.stage") == Growth(
        "zero", ("2", "3"), "ds.json", "zero_optimization.stage"
    )
    for text in ("batch", "batch=", "batch=4:1", "batch=0:4", "=1,2", "zero=1@ds.json"):
        with pytest.raises(UsageError):
            growth(text)


def test_one_thing_grows_after_another_and_each_keeps_its_largest() -> None:
    found = [values for _, values in sizes([growth("batch=1,2"), growth("seq=128,256")])]

    assert found == [
        {"batch": "1", "seq": "128"},
        {"batch": "2", "seq": "128"},
        {"batch": "2", "seq": "256"},
    ]


def test_what_has_no_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no place for seq"):
        checked(["true", "{batch}"], [growth("batch=1,2"), growth("seq=1,2")])
    with pytest.raises(UsageError, match="no command no-such-launcher"):
        checked(["no-such-launcher", "{batch}"], [growth("batch=1,2")])
    config = tmp_path / "ds.json"
    config.write_text('{"zero_optimization": {"stage": 2}}')
    with pytest.raises(UsageError, match="does not name"):
        checked(["true"], [Growth("zero", ("2",), str(config), "zero_optimization.stage")])
    with pytest.raises(UsageError, match="has no zero_optimization"):
        checked(["true", f"--deepspeed={config}"], [Growth("zero", ("2",), str(config), "zero_optimization.stages")])


def test_a_value_of_a_configuration_file_grows_in_a_copy(tmp_path: Path) -> None:
    config = tmp_path / "ds.json"
    config.write_text('{"zero_optimization": {"stage": 2}, "x": [1]}')
    one = Growth("zero", ("2", "3"), str(config), "zero_optimization.stage")
    (tmp_path / "copy").mkdir()

    words = command_at(["train.py", f"--deepspeed={config}"], [one], {"zero": "3"}, tmp_path / "copy")

    assert words == ["train.py", f"--deepspeed={tmp_path}/copy/ds.json"]
    assert json.loads((tmp_path / "copy" / "ds.json").read_text()) == {"zero_optimization": {"stage": 3}, "x": [1]}
    assert '"stage": 2' in config.read_text()


@pytest.mark.parametrize(
    ("name", "before", "now", "kind"),
    [
        ("batch", good("4", 0.5, 0.5, 0.5), good("8", 1.0, 1.0, 1.0), ""),
        ("batch", good("4", 0.5, 0.5, 0.5), good("8", 1.8, 1.8, 1.8), "step-time"),
        ("seq", good("4", 0.5, 0.5, 0.5), good("8", 1.8, 1.8, 1.8), ""),  # attention grows with its square
        ("ranks", good("4", 0.5, 0.5, 0.5), good("8", 1.0, 1.0, 1.0), "step-time"),  # its share stays the same
        ("zero", good("2", 0.5, 0.5, 0.5), good("3", 5.0, 5.0, 5.0), ""),  # no size
        ("batch", good("4", 0.001, 0.001, 0.001), good("8", 0.02, 0.02, 0.02), ""),  # too short to tell
        ("batch", good("4", 1.0, 1.0, 1.0), good("8", 1.0, 1.0, 9.0), "spread"),
        ("batch", good("4", 1.0, 1.0), good("8", 1.0, 1.0, memory_free=1 << 20, memory_limit=1 << 30), "headroom"),
        ("batch", good("4", 1.0, 1.0), good("8", 1.0, 1.0, card_free=1 << 20, card_size=1 << 30), "headroom"),
        ("batch", good("4", 1.0), Trial({"batch": "8"}, "limit", 600.0), "limit"),
        ("batch", None, Trial({"batch": "8"}, "no-steps", 6.0), "no-steps"),
    ],
)
def test_what_gives_way(name: str, before: Trial | None, now: Trial, kind: str) -> None:
    grown = growth(f"{name}=4,8")
    renamed = [
        None if trial is None else Trial(**{**_parts(trial), "values": {name: trial.values["batch"]}})
        for trial in (before, now)
    ]
    assert renamed[1] is not None

    found, because = judged(renamed[1], renamed[0], grown)

    assert found == kind
    assert (because is None) is (kind == "")


def _parts(trial: Trial) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in Trial.__slots__}


@pytest.mark.job
@pytest.mark.live
def test_it_grows_until_memory_gives_way(tmp_path: Path) -> None:
    document, code = ramp(tmp_path, "memory", "--grow", "batch=1:8")

    assert code == 1
    assert [(size["values"]["batch"], size["outcome"]) for size in document["sizes"]] == [
        ("1", "good"),
        ("2", "memory"),
    ]
    assert document["good"]["values"] == {"batch": "1"}
    assert len(document["good"]["steps"]) == 3
    assert document["good"]["ranks"] == 2
    assert document["good"]["memory_free"] > 0
    assert document["gave_way"]["cause"] == "host-memory"


@pytest.mark.job
@pytest.mark.live
def test_a_stall_is_named_and_ended(tmp_path: Path) -> None:
    document, code = ramp(tmp_path, "stall", "--grow", "batch=2,4", "--stall", "10")

    assert code == 1
    assert document["good"] is None
    assert document["gave_way"]["kind"] == "stall"
    assert "rank 1" in document["gave_way"]["because"]


@pytest.mark.job
@pytest.mark.live
def test_a_fall_is_told_with_its_words(tmp_path: Path) -> None:
    document, _ = ramp(tmp_path, "fall", "--grow", "batch=2,4")

    assert document["gave_way"]["kind"] == "crash"
    assert "sequence is too long" in document["gave_way"]["because"]


@pytest.mark.job
@pytest.mark.live
def test_steps_that_take_longer_than_the_size_explains_give_way(tmp_path: Path) -> None:
    document, _ = ramp(tmp_path, "slow", "--grow", "batch=1,2,4")

    assert document["gave_way"]["kind"] == "step-time"
    assert [size["outcome"] for size in document["sizes"]] == ["good", "good"]


@pytest.mark.job
@pytest.mark.live
def test_a_sound_job_grows_to_the_end(tmp_path: Path) -> None:
    document, code = ramp(tmp_path, "sound", "--grow", "batch=1,2")

    assert (code, document["gave_way"], document["good"]["values"]) == (0, None, {"batch": "2"})
