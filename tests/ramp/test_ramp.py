"""A ramp: which sizes there are, what counts as giving way, and real jobs that stall, fail or run out at a size."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.command import unhang
from unhang.errors import UsageError
from unhang.sentences import say
from unhang_ramp.choices import TriedChoices, combinations, parse_choice
from unhang_ramp.ramp import judge_size
from unhang_ramp.sizes import Growth, check_placeholders, command_for_size, parse_growth, ramp_sizes
from unhang_ramp.table import choices_document, choices_sheet
from unhang_ramp.trial import RampTrial

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


def at_work_in(folder: Path) -> list[int]:
    """Processes whose working directory it is."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cwd").readlink() == folder.resolve():
                found.append(int(path.name))
    return found


def ramp(folder: Path, how: str, *words: str) -> tuple[dict[str, Any], int]:
    (folder / "train.py").write_text(TRAIN)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = unhang(
        "ramp", "--steps", "3", "--limit", "60", "--format", "json", *words,
        "--", *launch, "train.py", "{batch}", "2", how,
        folder=folder, environment={"OMP_NUM_THREADS": "1"}, limit_s=200,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stderr
    assert at_work_in(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]
    return json.loads(ran.stdout), ran.returncode


def good(value: str, *steps: float, **more: Any) -> RampTrial:
    return RampTrial({"batch": value}, "good", 10.0, step_s=steps, **more)


def test_words_without_a_job() -> None:
    assert parse_growth("batch=1,2,6") == Growth("batch", ("1", "2", "6"))
    assert parse_growth("batch=1:6").values == ("1", "2", "4", "6")
    assert parse_growth("zero=2,3@ds.json:zero_optimization.stage") == Growth(
        "zero", ("2", "3"), "ds.json", "zero_optimization.stage"
    )
    for text in ("batch", "batch=", "batch=4:1", "batch=0:4", "=1,2", "zero=1@ds.json"):
        with pytest.raises(UsageError):
            parse_growth(text)


def test_one_thing_grows_after_another_and_each_keeps_its_largest() -> None:
    found = [values for _, values in ramp_sizes([parse_growth("batch=1,2"), parse_growth("seq=128,256")])]

    assert found == [
        {"batch": "1", "seq": "128"},
        {"batch": "2", "seq": "128"},
        {"batch": "2", "seq": "256"},
    ]


def test_what_has_no_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not contain \{seq\}"):
        check_placeholders(["true", "{batch}"], [parse_growth("batch=1,2"), parse_growth("seq=1,2")])
    with pytest.raises(UsageError, match="command not found: no-such-launcher"):
        check_placeholders(["no-such-launcher", "{batch}"], [parse_growth("batch=1,2")])
    config = tmp_path / "ds.json"
    config.write_text('{"zero_optimization": {"stage": 2}}')
    with pytest.raises(UsageError, match="does not name"):
        check_placeholders(["true"], [Growth("zero", ("2",), str(config), "zero_optimization.stage")])
    with pytest.raises(UsageError, match="has no zero_optimization"):
        check_placeholders(
            ["true", f"--deepspeed={config}"], [Growth("zero", ("2",), str(config), "zero_optimization.stages")]
        )


def test_a_value_of_a_configuration_file_grows_in_a_copy(tmp_path: Path) -> None:
    config = tmp_path / "ds.json"
    config.write_text('{"zero_optimization": {"stage": 2}, "x": [1]}')
    one = Growth("zero", ("2", "3"), str(config), "zero_optimization.stage")
    (tmp_path / "copy").mkdir()

    words = command_for_size(["train.py", f"--deepspeed={config}"], [one], {"zero": "3"}, tmp_path / "copy")

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
        ("batch", good("4", 1.0), RampTrial({"batch": "8"}, "limit", 600.0), "limit"),
        ("batch", None, RampTrial({"batch": "8"}, "no-steps", 6.0), "no-steps"),
    ],
)
def test_what_gives_way(name: str, before: RampTrial | None, now: RampTrial, kind: str) -> None:
    grown = parse_growth(f"{name}=4,8")
    renamed = [
        None if trial is None else RampTrial(**{**_parts(trial), "values": {name: trial.values["batch"]}})
        for trial in (before, now)
    ]
    assert renamed[1] is not None

    found, because = judge_size(renamed[1], renamed[0], grown)

    assert found == kind
    assert (because is None) is (kind == "")


def _parts(trial: RampTrial) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in RampTrial.__slots__}


def test_choices_alone_and_coupled() -> None:
    zero = parse_choice("zero=2,3@ds.json:zero_optimization.stage")
    batch = parse_choice("batch*accumulation=1*8,2*4")

    assert zero.settings == (Growth("zero", ("2", "3"), "ds.json", "zero_optimization.stage"),)
    assert [setting.values for setting in batch.settings] == [("1", "2"), ("8", "4")]
    assert list(combinations([zero, batch])) == [
        {"zero": "2", "batch": "1", "accumulation": "8"},
        {"zero": "2", "batch": "2", "accumulation": "4"},
        {"zero": "3", "batch": "1", "accumulation": "8"},
        {"zero": "3", "batch": "2", "accumulation": "4"},
    ]
    keys = parse_choice("batch*accumulation=1*8,2*4@ds.json:micro*gradient.steps").settings
    assert [setting.key for setting in keys] == ["micro", "gradient.steps"]
    for text in ("zero", "zero=", "a*b=1,2", "a*b=1*2*3", "a*b=1*@x.json:k", "a*b=1*2@x.json:k"):
        with pytest.raises(UsageError):
            parse_choice(text)


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("c.yaml", "zero: {zero}\nname: run-{zero}\n", "zero: 3\nname: run-3\n"),
        ("c.json", '{"stage": "{zero}", "name": "run-{zero}"}', '{"stage": 3, "name": "run-3"}'),
        ("c.toml", "[a]\nzero = '{zero}'  # today 2\n", "[a]\nzero = 3  # today 2\n"),
    ],
)
def test_placeholders_reach_into_the_files_the_command_names(name: str, text: str, after: str, tmp_path: Path) -> None:
    config = tmp_path / name
    config.write_text(text)
    (tmp_path / "copy").mkdir()
    (one,) = parse_choice("zero=2,3").settings
    check_placeholders(["true", "--config", str(config)], [one])

    words = command_for_size(["true", "--config", str(config)], [one], {"zero": "3"}, tmp_path / "copy")

    assert words == ["true", "--config", f"{tmp_path}/copy/{name}"]
    assert (tmp_path / "copy" / name).read_text() == after
    assert config.read_text() == text


def test_a_value_of_a_toml_file_is_changed_where_it_stands(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('steps = 1\n[training]\nsteps = 10  # ten\nname = "a"\n[other]\nsteps = 3\n')
    (tmp_path / "copy").mkdir()
    steps = Growth("steps", ("20",), str(config), "training.steps")
    name = Growth("name", ("b#c",), str(config), "training.name")

    command_for_size(["true", str(config)], [steps, name], {"steps": "20", "name": "b#c"}, tmp_path / "copy")

    assert (tmp_path / "copy" / "c.toml").read_text() == (
        'steps = 1\n[training]\nsteps = 20  # ten\nname = "b#c"\n[other]\nsteps = 3\n'
    )
    with pytest.raises(UsageError, match=r"has no training\.stage"):
        check_placeholders(["true", str(config)], [Growth("x", ("1",), str(config), "training.stage")])


def test_two_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    for folder in ("a", "b", "copy"):
        (tmp_path / folder).mkdir()
    files = [tmp_path / folder / "c.yaml" for folder in ("a", "b")]
    for file in files:
        file.write_text(f"in: {file.parent.name}\nzero: {{zero}}\n")
    (one,) = parse_choice("zero=2").settings

    words = command_for_size(["true", *map(str, files)], [one], {"zero": "2"}, tmp_path / "copy")

    assert [Path(word).read_text() for word in words[1:]] == ["in: a\nzero: 2\n", "in: b\nzero: 2\n"]


def test_the_fastest_choice_that_ended_well_is_named_and_the_others_stay_in_the_table() -> None:
    trials = (good("1", 0.5, 0.5), good("2", 0.2, 0.2), RampTrial({"batch": "4"}, "memory", 9.0, sentence="no room"))
    tried = TriedChoices(trials, tuple(judge_size(one, None, None) for one in trials))

    text = "\n".join(line.plain for line in choices_sheet(tried, 100).lines)
    document = choices_document(tried)

    assert "The fastest successful choice is batch=2." in text
    assert "batch=4: out of memory: no room" in text.replace("Batch", "batch")
    assert document["good"]["values"] == {"batch": "2"}
    assert [row["kind"] for row in document["sizes"]] == ["", "", "memory"]
    nothing = TriedChoices(trials[2:], (("memory", say("no room")),))
    assert choices_document(nothing)["good"] is None


@pytest.mark.job
@pytest.mark.live
def test_settings_are_tried_one_against_another(tmp_path: Path) -> None:
    document, code = ramp(tmp_path, "fall", "--try", "batch=1,2")

    assert code == 1
    assert [(row["values"]["batch"], row["kind"]) for row in document["sizes"]] == [("1", ""), ("2", "crash")]
    assert document["good"]["values"] == {"batch": "1"}


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
