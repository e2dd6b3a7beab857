"""Checkpoints as torch, DeepSpeed's names, safetensors and the Trainer's folders hold them, a zip each, a few KB.

``python -m tests.fuzz.saved.write_again`` writes them with the torch and safetensors that are installed; they are kept
so that an input is the same on every machine, and so that fuzzing needs no torch.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

HERE = Path(__file__).parent
STATE = {"weight": torch.arange(8.0), "bias": torch.ones(3)}


def _distributed(folder: Path) -> None:
    dcp.save(STATE, checkpoint_id=folder / "step-40", no_dist=True)


def _deepspeed(folder: Path) -> None:
    for step in (100, 200):
        tag = folder / f"global_step{step}"
        tag.mkdir()
        torch.save({"module": STATE}, tag / "mp_rank_00_model_states.pt")
        for rank in range(2):
            torch.save({"optimizer": rank}, tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    (folder / "latest").write_text("global_step200")


def _trainer(folder: Path) -> None:
    for step in (1, 2):
        place = folder / f"checkpoint-{step}"
        place.mkdir()
        save_file(STATE, place / "model.safetensors")
        (place / "config.json").write_text('{"model_type": "gpt2"}')
        torch.save({"lr": 1.0}, place / "optimizer.pt")
        (place / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))
    dcp.save(STATE, checkpoint_id=folder / "checkpoint-2" / "pytorch_model_fsdp_0", no_dist=True)


def _sharded(folder: Path) -> None:
    names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    for name, (key, tensor) in zip(names, STATE.items(), strict=True):
        save_file({key: tensor}, folder / name)
    index = {"metadata": {}, "weight_map": dict(zip(STATE, names, strict=True))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")


def _files(folder: Path) -> None:
    torch.save(STATE, folder / "epoch=1-step=300.ckpt")
    torch.save(STATE, folder / "old_step200.pt", _use_new_zipfile_serialization=False)
    save_file(STATE, folder / "step_40.safetensors")


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "distributed": _distributed,
    "deepspeed": _deepspeed,
    "trainer": _trainer,
    "sharded": _sharded,
    "files": _files,
}


def main() -> None:
    """Write all of them."""
    for name, write in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            with zipfile.ZipFile(HERE / f"{name}.zip", "w") as archive:
                for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                    info = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                    archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
