"""Write a small story: two ranks, one of which leaves the loop early; torch only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TRAIN = """\
import datetime

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    rank = dist.get_rank()
    batches = 40 - 10 * rank
    print(f"rank {rank}: {batches} batches", flush=True)
    for _ in range(batches):
        gradient = torch.ones(8)
        dist.all_reduce(gradient)
    dist.barrier()
    print("finished\\n", end="", flush=True)  # one write: both ranks share the pipe
    dist.destroy_process_group()


main()
"""
PATCH = """\
--- a/train.py
+++ b/train.py
@@ -8,7 +8,7 @@ def main():
     dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
     rank = dist.get_rank()
-    batches = 40 - 10 * rank
+    batches = 40  # DistributedSampler(..., drop_last=True)
     print(f"rank {rank}: {batches} batches", flush=True)
     for _ in range(batches):
         gradient = torch.ones(8)
"""
STORY = """\
title = "One rank leaves early"
command = ["torchrun", "--standalone", "--nproc-per-node=2", "train.py"]
ranks = 2
limit_s = 90

[before]
options = ["--only", "limits"]
[[before.finding]]
cause = "rank-crashed"

[during]
status = "hang"
cause = "uneven-data"
fewest = 'rank (?P<rank>\\d+): (?P<count>\\d+) batches'
file = "train.py"
line = "dist.barrier()"
within_s = 45
remedy = "Give every rank the same number of batches"
change = "drop_last=True"

[after.log]
cause = "{log_cause}"

[after.bundle]
cause = "uneven-data"
ranks = [1]

[fixed]
change = ["drop_last=True"]
shows = ["^finished$"]
"""


def write_story(folder: Path, *, replace: Mapping[str, str] | None = None, log_cause: str = "uneven-data") -> Path:
    """A story in ``folder``; ``replace``: texts of its ``story.toml`` to replace."""
    told = STORY.replace("{log_cause}", log_cause)
    for old, new in (replace or {}).items():
        assert old in told, old
        told = told.replace(old, new)
    folder.mkdir(parents=True)
    (folder / "story.toml").write_text(told, encoding="utf-8")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    (folder / "fixed.patch").write_text(PATCH, encoding="utf-8")
    (folder / "README.md").write_text("# One rank leaves early\n", encoding="utf-8")
    return folder
