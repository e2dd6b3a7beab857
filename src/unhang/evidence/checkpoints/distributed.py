"""torch.distributed.checkpoint: ``.metadata`` is written last and says which bytes every file must have.

Source: torch 2.13.0 torch/distributed/checkpoint/filesystem.py (``FileSystemWriter.finish``, ``_StorageInfo``). The
metadata is a pickle: its classes are replaced by inert ones, so nothing in it can run.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from unhang.evidence.checkpoints.checkpoint import (
    CUT_OFF,
    MISSING,
    REFUSED,
    UNFINISHED,
    Checkpoint,
    Flaw,
    checkpoint_of_files,
)

METADATA = ".metadata"
MAX_METADATA = 256 << 20


class _InertObject:
    """Stands for every class and function that the pickle names: it takes anything and does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        return

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, _: object) -> None:
        """As a list would."""

    def extend(self, _: object) -> None:
        """As a list would."""

    def __setitem__(self, _: object, __: object) -> None:
        return


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ARG002
        return _InertObject

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002
        return _InertObject()


def is_distributed(names: set[str]) -> bool:
    """Whether a folder with these ``names`` is a checkpoint of torch.distributed.checkpoint, finished or not."""
    return METADATA in names or any(name.endswith(".distcp") for name in names)


def distributed_checkpoint(folder: Path, names: set[str]) -> Checkpoint:
    """The checkpoint of ``torch.distributed.checkpoint`` in ``folder``; ``names``: the files in it."""
    parts = sorted(name for name in names if name.endswith(".distcp"))
    files = [folder / name for name in (*parts, METADATA) if name in names]
    return checkpoint_of_files(folder, "dcp", files, _flaw(folder, names))


def _flaw(folder: Path, names: set[str]) -> Flaw | None:
    if METADATA not in names:
        return Flaw(UNFINISHED, METADATA)
    try:
        needed = _needed_bytes(folder / METADATA)
        for name, size in sorted(needed.items()):
            if name not in names:
                return Flaw(MISSING, name)
            if (folder / name).stat().st_size < size:
                return Flaw(CUT_OFF, name)
    except OSError as error:
        return Flaw(REFUSED, f"{METADATA}: {error.strerror or error}")
    except Exception:  # noqa: BLE001 - an unpickler raises whatever a torn or hostile file makes it raise
        return Flaw(CUT_OFF, METADATA)
    return None


def _needed_bytes(metadata: Path) -> dict[str, int]:
    """For each file, up to which byte it must reach."""
    if metadata.stat().st_size > MAX_METADATA:
        raise OSError(0, "larger than any metadata")
    read = _InertUnpickler(io.BytesIO(metadata.read_bytes())).load()
    infos = read.state.get("storage_data", {}).values()
    needed: dict[str, int] = {}
    for info in infos:
        path, end = str(info.state["relative_path"]), int(info.state["offset"]) + int(info.state["length"])
        needed[path] = max(needed.get(path, 0), end)
    return needed
