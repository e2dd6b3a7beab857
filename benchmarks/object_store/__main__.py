"""Measure evidence in an object store, on this machine alone.

    python -m benchmarks object-store speed unlimited peers fetched faults      # 64 ranks, 10 MB each
    python -m benchmarks object-store speed --ranks 256 --rank-mb 40            # 10 GB; 12 GB of disk
    python -m benchmarks object-store growth --growth 64 512 4096 16384 --entries 2000 --log-mb 0.1 --workers 2

Of ``--rank-mb`` a tenth is a flight-recorder dump, as torch 2.13 writes it, the rest a log. Each command runs in a
fresh process. A link is a small proxy (``slow_links``): each connection has its own limit, as with a store's front
ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.object_store.evidence import BUCKET, Shape, Store, write_evidence
from benchmarks.object_store.faults import faults
from benchmarks.object_store.fetched import fetched
from benchmarks.object_store.growth import growth
from benchmarks.object_store.peers import peers
from benchmarks.object_store.speed import limited, unlimited

_BYTES_AN_ENTRY = 163
_ON_ONE_STORE = {"speed": limited, "unlimited": unlimited, "peers": peers, "fetched": fetched, "faults": faults}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the evidence once, measure what was named, in the order it was named."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended then too
    with tempfile.TemporaryDirectory(prefix="unhang-bench-", dir=options.scratch) as made:
        scratch = Path(made)
        now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {now}")
        store = _written(scratch / "store", options) if set(options.what) & set(_ON_ONE_STORE) else None
        for what in options.what:
            if store is None or what == "growth":
                growth(scratch, options)
            else:
                _ON_ONE_STORE[what](store, scratch, options)
    return 0


def _written(root: Path, options: argparse.Namespace) -> Store:
    begun, of_rank = time.monotonic(), options.rank_mb * 1e6
    entries = options.entries or int(of_rank / 10 / _BYTES_AN_ENTRY)
    shape = Shape(options.ranks, int(of_rank * 0.9), entries, cause=options.cause)
    size = write_evidence(root / BUCKET, shape)
    took = time.monotonic() - begun
    print(f"wrote {size / 1e9:.2f} GB of {options.ranks} ranks ({options.cause}) in {took:.0f} s", flush=True)
    return Store(root, size)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks object-store", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("what", nargs="+", choices=(*_ON_ONE_STORE, "growth"))
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rank-mb", type=float, default=10.0, help="MB of evidence a rank")
    parser.add_argument("--cause", choices=("oom", "late"), default="oom")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rate", type=float, default=20.0, help="MB/s for each connection")
    parser.add_argument("--delay", type=float, default=20.0, help="ms for each request")
    parser.add_argument("--growth", type=int, nargs="+", default=[64, 512, 4096], help="numbers of ranks")
    parser.add_argument("--entries", type=int, default=None, help="entries of a dump")
    parser.add_argument("--log-mb", type=float, default=0.1, help="MB of log a rank, for growth")
    parser.add_argument("--bag", nargs="*", default=["find", "re"], choices=("find", "re"))
    parser.add_argument("--re-kb", type=int, default=200, help="kB of each log that Python's re searches")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a command is given up")
    parser.add_argument("--scratch", default=None, help="folder for the evidence (default: the system's)")
    options = parser.parse_args(arguments)
    if "growth" in options.what:
        options.entries = options.entries or 2000
    return options


if __name__ == "__main__":
    sys.exit(main())
