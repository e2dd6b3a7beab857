"""Whole checkpoints are told from torn ones, in the layouts the libraries themselves write."""

from __future__ import annotations

import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from unhang.evidence.checkpoints.checkpoint import Checkpoint, step_in_name
from unhang.evidence.checkpoints.checkpoint_listing import checkpoint_listing, read_checkpoint_listing
from unhang.evidence.checkpoints.checkpoint_search import find_checkpoints
from unhang.findings import Source, Unread

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn as they like


def only(folder: Path, **how: Any) -> Checkpoint:
    (found,) = find_checkpoints([folder], **how)
    return found


def cut(path: Path, share: float = 0.7) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def state() -> dict[str, Any]:
    return {"weight": torch.arange(4096.0), "bias": torch.ones(7)}


@pytest.mark.parametrize("name", ["model_step300.pt", "epoch=1-step=300.ckpt", "ckpt-300.pth"])
def test_a_file_of_torch_is_whole_or_cut_off(tmp_path: Path, name: str) -> None:
    torch.save(state(), tmp_path / name)
    assert (only(tmp_path).whole, only(tmp_path).step, only(tmp_path).layout) == (True, 300, "torch")

    cut(tmp_path / name)
    assert (only(tmp_path).whole, only(tmp_path).flaw, only(tmp_path).detail) == (False, "cut-off", name)


def test_a_file_of_torch_that_needs_a_zip_of_no_known_version_is_cut_off(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "last.ckpt")
    data = bytearray((tmp_path / "last.ckpt").read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 64
    (tmp_path / "last.ckpt").write_bytes(data)

    assert only(tmp_path).flaw == "cut-off"


def test_of_a_bare_pickle_nobody_can_tell(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)

    assert only(tmp_path).whole is None


def test_an_empty_file_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").touch()

    assert only(tmp_path).whole is False


def write_safetensors(path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.arange(4096.0)}, path)


def test_safetensors_end_where_their_header_says(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    write_safetensors(tmp_path / "model.safetensors")
    assert only(tmp_path).whole is True

    cut(tmp_path / "model.safetensors", 0.99)
    assert only(tmp_path).flaw == "cut-off"
    cut(tmp_path / "model.safetensors", 0.0)
    assert only(tmp_path).flaw == "cut-off"


def test_a_shard_that_the_index_names_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    for name in names[:2]:
        write_safetensors(tmp_path / name)
    (tmp_path / "config.json").write_text("{}")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {f"w{i}": name for i, name in enumerate(names)}}))
    assert (only(tmp_path).flaw, only(tmp_path).detail) == ("missing", names[2])

    write_safetensors(tmp_path / names[2])
    assert only(tmp_path).whole is True
    index.write_text(json.dumps({"weight_map": {"w": "../../etc/passwd"}}))
    assert only(tmp_path).flaw == "missing"
    index.write_text("[" * 100_000)
    assert only(tmp_path).flaw == "cut-off"


def distributed(folder: Path) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save(state(), checkpoint_id=folder, no_dist=True)


def test_a_distributed_checkpoint_has_every_byte_its_metadata_names(tmp_path: Path) -> None:
    distributed(tmp_path / "step-40")
    found = only(tmp_path)
    assert (found.layout, found.whole, found.step) == ("dcp", True, 40)

    (part,) = (tmp_path / "step-40").glob("*.distcp")
    cut(part, 0.9)
    assert (only(tmp_path).flaw, only(tmp_path).detail) == ("cut-off", part.name)
    part.unlink()
    assert only(tmp_path).flaw == "missing"


def test_a_distributed_checkpoint_without_metadata_was_not_finished(tmp_path: Path) -> None:
    distributed(tmp_path / "step-40")
    (tmp_path / "step-40" / ".metadata").unlink()

    assert only(tmp_path).flaw == "unfinished"


def test_metadata_that_would_run_something_runs_nothing(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / ".metadata").write_bytes(pickle.dumps(Hostile()))

    assert only(tmp_path / "step-1").whole is False
    assert not (tmp_path / "ran").exists()


def write_deepspeed(tag: Path, ranks: int) -> None:
    tag.mkdir(parents=True)
    torch.save({"module": state()}, tag / "mp_rank_00_model_states.pt")
    for rank in range(ranks):
        torch.save({"optimizer": rank}, tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def test_deepspeed_needs_the_share_of_every_rank(tmp_path: Path) -> None:
    write_deepspeed(tmp_path / "global_step100", 4)
    (tmp_path / "latest").write_text("global_step100")
    assert (only(tmp_path, world_size=4).whole, only(tmp_path).step) == (True, 100)

    assert only(tmp_path, world_size=8).detail == "4 of 8"
    (tmp_path / "global_step100" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    assert (only(tmp_path).flaw, only(tmp_path).detail) == ("ranks", "3 of 4")


def test_deepspeed_names_a_tag_only_when_all_ranks_are_done(tmp_path: Path) -> None:
    for step in (100, 200):
        write_deepspeed(tmp_path / f"global_step{step}", 2)
    (tmp_path / "latest").write_text("global_step100")

    found = {one.step: one.whole for one in find_checkpoints([tmp_path], world_size=2)}
    assert found == {100: True, 200: False}


def test_the_trainer_s_own_checkpoint(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=32, n_positions=16)
    rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 4
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, save_steps=1, report_to=[], use_cpu=True, disable_tqdm=True
    )
    transformers.Trainer(transformers.GPT2LMHeadModel(config), arguments, train_dataset=rows).train()
    found = {one.step: one for one in find_checkpoints([tmp_path])}
    assert {step: (one.layout, one.whole) for step, one in found.items()} == {
        1: ("transformers", True),
        2: ("transformers", True),
    }

    (tmp_path / "checkpoint-2" / "trainer_state.json").unlink()
    cut(tmp_path / "checkpoint-1" / "optimizer.pt")
    found = {one.step: one for one in find_checkpoints([tmp_path])}
    assert {step: one.flaw for step, one in found.items()} == {1: "cut-off", 2: "unfinished"}


def test_the_newest_comes_first_and_the_look_is_bounded(tmp_path: Path) -> None:
    for step in range(80):
        path = tmp_path / f"step_{step}.pt"
        path.write_bytes(b"")
        os.utime(path, (time.time() - 1000 + step,) * 2)

    found = find_checkpoints([tmp_path])
    assert len(found) == 64
    assert found[0].step == 79


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert find_checkpoints([tmp_path / "no", tmp_path]) == ()


def test_a_listing_reads_back_and_a_forged_one_does_not(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "step_3.pt")
    found = find_checkpoints([tmp_path])
    assert read_checkpoint_listing(checkpoint_listing(found), source=Source("x")) == found

    for raw in (b"{", b'{"schema": "unhang.checkpoints/9"}', checkpoint_listing(found).replace(b'"torch"', b'"other"')):
        assert isinstance(read_checkpoint_listing(raw, source=Source("x")), Unread)


@pytest.mark.parametrize(
    ("name", "step"),
    [("checkpoint-1500", 1500), ("step-40", 40), ("global_step120", 120), ("epoch=3-step=900", 900), ("final", None)],
)
def test_steps_are_read_from_names(name: str, step: int | None) -> None:
    assert step_in_name(name) == step
