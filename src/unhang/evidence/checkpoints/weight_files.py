"""Single files of weights: torch.save (zip since 1.6) and safetensors. Their own table of contents says where they end.

Sources: torch 2.13.0 torch/serialization.py (``_is_zipfile``, ``data.pkl``); safetensors 0.6 README, section Format.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from unhang.evidence.checkpoints.checkpoint import CUT_OFF, MISSING, NO_MARK, REFUSED, Flaw
from unhang.wire.documents.document import JSON_ERRORS

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
MAX_HEADER = 100 << 20
"""safetensors itself takes no longer header."""
MAX_INDEX = 64 << 20


def flaw_of_file(path: Path) -> Flaw | None:
    """What is wrong with a file of weights; None when it is whole."""
    try:
        if path.suffix == ".safetensors":
            return _of_safetensors(path)
        return _of_torch(path)
    except OSError as error:
        return Flaw(REFUSED, f"{path.name}: {error.strerror or error}")


def _of_torch(path: Path) -> Flaw | None:
    with path.open("rb") as file:
        head = file.read(4)
    if not head:
        return Flaw(CUT_OFF, path.name)
    if head[:2] != b"PK":
        return Flaw(NO_MARK, path.name)  # a bare pickle
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):  # the last: of a version that no zip has
        return Flaw(CUT_OFF, path.name)
    return None if any(name.endswith("data.pkl") for name in names) else Flaw(CUT_OFF, path.name)


def _of_safetensors(path: Path) -> Flaw | None:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            return Flaw(CUT_OFF, path.name)
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            whole = size >= 8 + length + max(ends, default=0)
        except (*JSON_ERRORS, KeyError, IndexError, TypeError, AttributeError):
            return Flaw(CUT_OFF, path.name)
    return None if whole else Flaw(CUT_OFF, path.name)


def flaw_of_index(index: Path) -> Flaw | None:
    """What is wrong with the shards that ``model.safetensors.index.json`` (or ``….bin.index.json``) names."""
    try:
        if index.stat().st_size > MAX_INDEX:
            return Flaw(REFUSED, index.name)
        shards = sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()})
    except OSError as error:
        return Flaw(REFUSED, f"{index.name}: {error.strerror or error}")
    except (*JSON_ERRORS, KeyError, AttributeError, TypeError):
        return Flaw(CUT_OFF, index.name)
    return flaw_of_parts(index.parent, shards)


def flaw_of_parts(folder: Path, names: list[str]) -> Flaw | None:
    """The first flaw among files of ``folder``; a name that leads elsewhere is missing."""
    for name in names:
        if "/" in name or name in ("", ".", "..") or not (folder / name).is_file():
            return Flaw(MISSING, name)
        flaw = flaw_of_file(folder / name)
        if flaw is not None:
            return flaw
    return None
