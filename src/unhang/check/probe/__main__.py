"""``python -m unhang.check.probe``: the process in which a probe happens. Every answer is one marked line.

``probe`` asks everything once. ``serve`` reads lines ``{"VARIABLE": "value"}`` from standard input, asks each time
under these variables whether the ranks work together at all, and answers each line with one. Under a launcher rank 0
does this and the other ranks follow it; all of them print the last answer.
"""

from __future__ import annotations

import argparse
import os
import sys

from unhang.check.probe_results.probe_results import refusal_line
from unhang.errors import UnhangError
from unhang.host.own_process import end_with_parent


def main() -> int:
    """Run one probe, or serve; 0 when there was an answer."""
    chosen = _parser().parse_args()
    if not end_with_parent(chosen.of or os.getppid()):
        return 1
    try:
        import torch.distributed as dist
    except ImportError as error:
        return _refused(f"PyTorch cannot be imported here ({error})")
    if not dist.is_available():
        return _refused("this PyTorch was built without torch.distributed")
    from unhang.check.probe.probe import run

    try:
        return run(chosen)
    except (RuntimeError, OSError, UnhangError) as error:
        return _refused((str(error).strip() or type(error).__name__).splitlines()[0][:300])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m unhang.check.probe")
    parser.add_argument("verb", choices=["probe", "serve"])
    parser.add_argument("--of", type=int, default=0, metavar="PID", help="end when this process, our parent, ends")
    parser.add_argument("--ranks", type=int, default=0, help="on this machine; default: its GPUs, or 2")
    parser.add_argument("--backend", choices=["gloo", "nccl"], help="default: nccl where there are GPUs")
    parser.add_argument("--scope", action="append", default=[], metavar="NAME:RANKS", help="a group size to try")
    parser.add_argument("--planned", type=int, help="ranks the job will have")
    parser.add_argument("--limit", type=float, help="seconds of one step")
    return parser


def _refused(reason: str) -> int:
    sys.stdout.write(refusal_line(reason))
    return 1


if __name__ == "__main__":
    sys.exit(main())
