"""The collective a Gloo rank stands or fell in, read from the frame of the call: a fraction of a millisecond.

When a rank of a Gloo job dies, its partners fall within milliseconds and the launcher ends the rest within a tenth of
a second: often too soon for a dump of 2,000 entries. A dump of one entry, in torch's own format, comes first.

Only shapes and types of tensors are asked for, never their content.
"""

from __future__ import annotations

import pickle
import sys
import time
from types import FrameType, TracebackType
from typing import Any

from unhang.inprocess.capture.frames import DISTRIBUTED_FILE
from unhang.inprocess.capture.recorder import FlightRecorder
from unhang.inprocess.import_hooks import DISTRIBUTED
from unhang.wire.record_views import GroupProgress

_ONE = ("tensor", "tensor")
_GATHERED = ("input_tensor", "")
COLLECTIVE_SIGNATURES = {
    "all_reduce": ("all_reduce", *_ONE),
    "broadcast": ("broadcast", *_ONE),
    "reduce": ("reduce", *_ONE),
    "barrier": ("barrier", "", ""),
    "all_gather": ("all_gather", "tensor", ""),
    "all_gather_single": ("all_gather", *_GATHERED),
    "all_gather_into_tensor": ("all_gather", *_GATHERED),
}
"""Function of torch, and what Gloo's recorder calls it; the names of its input and output, empty for as many inputs
as the group has ranks. Only calls whose entry is known to look like the recorder's own."""
_TYPES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
_DEPTH = 64


Frames = list[tuple[FrameType, int]]
"""Frames and the lines they are at, innermost first."""


def frames_of_traceback(trace: TracebackType | None) -> Frames:
    """The innermost frames of an exception, innermost first."""
    frames: Frames = []
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno or 0))
        trace = trace.tb_next
    return frames[: -_DEPTH - 1 : -1]


def frames_of_thread(frame: FrameType | None) -> Frames:
    """The innermost frames of a running thread, innermost first."""
    frames: Frames = []
    while frame is not None and len(frames) < _DEPTH:
        frames.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return frames


def is_collective(frames: Frames) -> bool:
    """The innermost frame is torch's own function of a collective."""
    if not frames:
        return False
    code = frames[0][0].f_code
    return code.co_name in COLLECTIVE_SIGNATURES and code.co_filename.endswith(DISTRIBUTED_FILE)


def dump_of_call(frames: Frames, recorder: FlightRecorder) -> bytes | None:
    """A dump of the one call whose frame is the innermost; None where Gloo was not asked for it yet."""
    if not is_collective(frames):
        return None
    values = frames[0][0].f_locals
    if not hasattr(values.get("work"), "wait"):  # not issued: the position would be that of the call before
        return None
    found = _group_of(values.get("group"), recorder)
    if found is None or found[1] < 1:
        return None
    name, given, returned = COLLECTIVE_SIGNATURES[frames[0][0].f_code.co_name]
    inputs = [values[given]] if given else []
    sizes = [list(tensor.shape) for tensor in inputs]
    outputs = sizes if returned else [[found[0].size, *size] for size in sizes]
    types = [_TYPES.get(word, word) for word in (str(tensor.dtype).rpartition(".")[2] for tensor in inputs)]
    return _pickled(found[0].name, found[1], name, sizes, outputs, types, frames)


def _group_of(group: Any, recorder: FlightRecorder) -> tuple[GroupProgress, int] | None:
    """The call's group and how far it is; None where that is not known."""
    world = getattr(sys.modules.get(DISTRIBUTED), "_world", None)
    if world is None:
        return None
    name = world.pg_names.get(group if group is not None else world.default_pg)
    return recorder.enqueued_now(name) if name is not None else None


def _pickled(
    group: str,
    position: int,
    name: str,
    sizes: list[list[int]],
    outputs: list[list[int]],
    types: list[str],
    frames: Frames,
) -> bytes:
    entry = {
        "record_id": 0,
        "pg_id": 0,
        "process_group": (group, ""),
        "collective_seq_id": position,
        "p2p_seq_id": 0,
        "op_id": position,
        "profiling_name": f"gloo:{name}",
        "time_created_ns": time.time_ns(),
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "input_sizes": sizes,
        "input_dtypes": types,
        "output_sizes": outputs,
        "output_dtypes": types,
        "state": "scheduled",
        "retired": False,
        "is_p2p": False,
        "timeout_ms": 0,
        "frames": [
            {"name": frame.f_code.co_name, "filename": frame.f_code.co_filename, "line": line} for frame, line in frames
        ],
    }
    status = {
        "last_enqueued_collective": position,
        "last_started_collective": -1,
        "last_completed_collective": position - 1,
    }
    return pickle.dumps({"version": "2.10", "pg_status": {"0": status}, "entries": [entry]}, protocol=2)
