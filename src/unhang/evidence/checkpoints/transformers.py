"""transformers: ``checkpoint-N`` of its Trainer (``trainer_state.json`` comes last) and folders of ``save_pretrained``.

Source: transformers 5.23 trainer.py (``_save_checkpoint``), modeling_utils.py (``save_pretrained``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from unhang.evidence.checkpoints.checkpoint import CUT_OFF, MISSING, UNFINISHED, Checkpoint, Flaw, checkpoint_of_files
from unhang.evidence.checkpoints.weight_files import flaw_of_index, flaw_of_parts
from unhang.wire.documents.document import JSON_ERRORS

STATE = "trainer_state.json"
_NAME = re.compile(r"(?:tmp-)?checkpoint-\d+$")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
_OTHERS = ("optimizer.pt", "scheduler.pt", "training_args.bin")
_MAX_STATE = 64 << 20


def is_transformers(folder: Path, names: set[str]) -> bool:
    """Whether ``folder`` with these ``names`` is a checkpoint of the Trainer or a saved model."""
    saved = "config.json" in names or "adapter_config.json" in names
    return STATE in names or bool(_NAME.match(folder.name)) or (saved and bool(_weights(names)))


def transformers_checkpoint(folder: Path, names: set[str], inner: Flaw | None, *, has_inner: bool) -> Checkpoint:
    """The checkpoint in ``folder``. ``inner``: what is wrong with a DeepSpeed or DCP folder in it (``has_inner``)."""
    files = [folder / name for name in sorted(names) if (folder / name).is_file()]
    return checkpoint_of_files(folder, "transformers", files, _flaw(folder, names, inner, has_inner=has_inner))


def _weights(names: set[str]) -> list[str]:
    indices = sorted(name for name in names if name.endswith(".index.json"))
    return indices or [name for name in _WEIGHTS if name in names]


def _flaw(folder: Path, names: set[str], inner: Flaw | None, *, has_inner: bool) -> Flaw | None:
    weights = _weights(names)
    if not weights and not has_inner:
        return Flaw(MISSING, _WEIGHTS[0])
    for name in weights:
        flaw = flaw_of_index(folder / name) if name.endswith(".json") else flaw_of_parts(folder, [name])
        if flaw is not None:
            return flaw
    return inner or flaw_of_parts(folder, [name for name in _OTHERS if name in names]) or _flaw_of_state(folder, names)


def _flaw_of_state(folder: Path, names: set[str]) -> Flaw | None:
    if not _NAME.match(folder.name) and STATE not in names:
        return None  # a saved model has none
    if STATE not in names or folder.name.startswith("tmp-"):
        return Flaw(UNFINISHED, STATE)
    try:
        with (folder / STATE).open("rb") as file:
            json.loads(file.read(_MAX_STATE))
    except (OSError, *JSON_ERRORS):
        return Flaw(CUT_OFF, STATE)
    return None
