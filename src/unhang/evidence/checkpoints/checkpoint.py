"""One checkpoint, as its files tell: its step, when it was saved, and what it lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

CUT_OFF = "cut-off"
"""A file ends before its own table of contents says it does."""
MISSING = "missing"
"""A file that another one names is not there."""
RANKS = "ranks"
"""Fewer ranks wrote their part than there are; ``detail`` says ``3 of 8``."""
UNFINISHED = "unfinished"
"""The mark that the layout sets last is not there."""
NO_MARK = "no-mark"
"""Its format has no end by which it could be told whole from torn."""
REFUSED = "refused"
"""Its files cannot be read."""
FLAWS = (CUT_OFF, MISSING, RANKS, UNFINISHED, NO_MARK, REFUSED)
_CANNOT_TELL = (NO_MARK, REFUSED)
LAYOUTS = ("torch", "safetensors", "dcp", "deepspeed", "transformers")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file or folder one could resume from. ``saved_s``: its newest file, since the epoch; ``size`` in bytes.

    ``flaw``: one of :data:`FLAWS`, empty where it is whole; ``detail``: which file, or how many ranks.
    """

    path: str
    layout: str
    saved_s: float
    size: int
    step: int | None = None
    flaw: str = ""
    detail: str = ""

    @property
    def whole(self) -> bool | None:
        """Whether the checkpoint is complete; None if unknown."""
        return None if self.flaw in _CANNOT_TELL else not self.flaw


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with one part of a checkpoint."""

    kind: str
    detail: str = ""


_NUMBER = re.compile(r"\d{1,12}")


def step_in_name(name: str) -> int | None:
    """The last number in ``checkpoint-1500``, ``step-40``, ``global_step120``, ``epoch=1-step=300.ckpt``; else None."""
    numbers = _NUMBER.findall(name.rpartition("step")[2]) or _NUMBER.findall(name)
    return int(numbers[0] if "step" in name else numbers[-1]) if numbers else None


def checkpoint_of_files(path: Path, layout: str, files: list[Path], flaw: Flaw | None) -> Checkpoint:
    """The checkpoint at ``path`` that consists of ``files``."""
    told = [file.stat() for file in files if file.exists()]
    found = Checkpoint(
        str(path),
        layout,
        saved_s=max((one.st_mtime for one in told), default=0.0),
        size=sum(one.st_size for one in told),
        step=step_in_name(path.stem if path.suffix and path.is_file() else path.name),
    )
    return found if flaw is None else replace(found, flaw=flaw.kind, detail=flaw.detail[:200])
