"""Which cause an error text belongs to, so that a crash is named for what it died of and not for having died."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from unhang.evidence.items import PythonTraceback
from unhang.findings import Cause
from unhang.knowledge.messages import match_message

_BY_KIND = {
    "cuda.ecc": Cause.GPU_HARDWARE,
    "cuda.lost": Cause.GPU_HARDWARE,
    "cuda.nvlink": Cause.GPU_HARDWARE,
    "cuda.noninit": Cause.GPU_HARDWARE,
    "cuda.ordinal": Cause.DEVICE_MAPPING,
    "cuda.busy": Cause.DEVICE_MAPPING,
    "n.dup": Cause.DEVICE_MAPPING,
    "n.dup30": Cause.DEVICE_MAPPING,
    "cuda.driver": Cause.VERSION_MISMATCH,
    "cuda.noimage": Cause.VERSION_MISMATCH,
    "py.symbol": Cause.VERSION_MISMATCH,
    "n.mixver": Cause.VERSION_MISMATCH,
    "store.bind": Cause.RENDEZVOUS,
    "store.inuse": Cause.RENDEZVOUS,
    "store.connect": Cause.RENDEZVOUS,
    "store.count": Cause.RENDEZVOUS,
    "store.barrier_to": Cause.RENDEZVOUS,
    "store.noaddr": Cause.RENDEZVOUS,
    "rdzv.to": Cause.RENDEZVOUS,
    "rdzv.connect": Cause.RENDEZVOUS,
    "gloo.mesh": Cause.NETWORK_CONFIG,
    "gloo.refused": Cause.NETWORK_CONFIG,
    "gloo.noif": Cause.NETWORK_CONFIG,
    "dl.shm": Cause.HOST_MEMORY,
    "n.shm": Cause.HOST_MEMORY,
    "n.shmseg": Cause.HOST_MEMORY,
    "n.shmfalloc": Cause.HOST_MEMORY,
    "n.fds": Cause.HOST_MEMORY,
    "ray.oom": Cause.HOST_MEMORY,
    "dl.timeout": Cause.SLOW_DATA_LOADING,
    "det.mis": Cause.COLLECTIVE_MISMATCH,
    "ddp.shape": Cause.COLLECTIVE_MISMATCH,
    "ddp.unused": Cause.RANK_CONDITIONAL_COLLECTIVE,
    "uid.wait": Cause.UNKNOWN,
    "ncclerr": Cause.UNKNOWN,
}


_START = re.compile(r"rendezvous|TCPStore|init_process_group|_store|elastic", re.IGNORECASE)


def port_of_the_job(tracebacks: Iterable[PythonTraceback]) -> bool:
    """A port "in use" is that of the store: it was raised while making the store or a group, or nobody tells where.

    Another server of the program (metrics, TensorBoard) fails with the same words.
    """
    raised = [t for t in tracebacks if "ddress already in use" in t.message]
    return not raised or any(_START.search(f"{f.file} {f.function}") for t in raised for f in t.frames)


@lru_cache(maxsize=4096)
def cause_of_text(text: str) -> Cause | None:
    """The cause that an error text names by itself; None when it is a failure of the program's own."""
    for match in match_message(text[:2000].replace("\n", " ")):
        if match.row.id == "dl.killed":
            return Cause.HOST_MEMORY if match.values.get("signal", "").strip() in ("Killed", "Bus error") else None
        if match.row.id == "cuda.error" and "unknown error" in str(match.values.get("error", "")):
            return Cause.GPU_HARDWARE
        if match.row.id == "cuda.error" and "peer" in str(match.values.get("error", "")):
            return Cause.P2P_BROKEN
        if match.row.id in _BY_KIND:
            return _BY_KIND[match.row.id]
    return None
