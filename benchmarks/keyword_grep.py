"""The peer of the corpus: what one gets by looking for well-known words in a log, in the order one would.

Written from the words of the messages alone, not fitted to any case. The first word that occurs names the cause; the
first rank on its line, else the first rank of the log, is the culprit.
"""

from __future__ import annotations

import re
from pathlib import Path

_WORDS = (
    ("gpu-oom", r"CUDA out of memory|OutOfMemoryError"),
    (
        "gpu-hardware",
        r"Xid|ECC error|fallen off the bus|NVLink.*error|unspecified launch failure|illegal memory access",
    ),
    (
        "host-memory",
        r"oom-kill|Out of memory: Killed|Cannot allocate memory|/dev/shm|Bus error|No space left on device",
    ),
    ("device-mapping", r"invalid device ordinal|Duplicate GPU detected|devices used by this process are.*unknown"),
    (
        "version-mismatch",
        r"undefined symbol|version mismatch|Mismatched NCCL version|no kernel image|unhandled cuda error",
    ),
    ("p2p-broken", r"peer access|P2P|IOMMU|Access Control Services"),
    ("network-fault", r"Got completion .*(?:error|status=)|transport retry counter|link down|port error"),
    ("network-config", r"No route to host|ibv_\w+ failed|Connection timed out|no socket interface|Bootstrap.*fail"),
    ("rendezvous", r"Address already in use|RendezvousTimeout|client socket has timed out|store based barrier"),
    ("collective-mismatch", r"mismatch between collectives|Detected mismatch|size mismatch|different shapes?"),
    ("rank-conditional-collective", r"unused parameters|finished reduction in the prior iteration"),
    ("slow-data-loading", r"DataLoader (?:worker|timed out)|dataloader.*slow"),
    ("single-rank-work", r"Map:|[Tt]okeniz|[Ss]aving (?:model|checkpoint)|[Ee]valuat"),
    ("uneven-data", r"uneven|StopIteration|drop_last"),
    ("deadlock-order", r"[Dd]eadlock"),
    ("rank-crashed", r"(?:Error|Exception): |Segmentation fault|exitcode\s*: -?[1-9]|Killed"),
    ("timeout-too-short", r"[Tt]imeout\(ms\)=\d{1,5}\b"),
)
_PATTERNS = tuple((cause, re.compile(pattern)) for cause, pattern in _WORDS)
_RANK = re.compile(r"[Rr]ank[ _:=]{0,2}(\d+)")


def grep(path: Path) -> tuple[str, tuple[int, ...]]:
    """The cause and the ranks that the words in a log, or in the logs of a folder, suggest."""
    files = sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
    text = "\n".join(file.read_bytes().decode("utf-8", "replace") for file in files)
    for cause, pattern in _PATTERNS:
        found = pattern.search(text)
        if found is not None:
            return cause, _ranks(text, found.start())
    return "unknown", _ranks(text, 0)


def _ranks(text: str, at: int) -> tuple[int, ...]:
    line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)]
    rank = _RANK.search(line) or _RANK.search(text)
    return (int(rank[1]),) if rank else ()
