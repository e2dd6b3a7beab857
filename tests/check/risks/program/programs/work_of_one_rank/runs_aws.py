import os, time, torch, torch.distributed as dist
import subprocess, datetime

dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=3))


def fetch(source):
    line = f"aws s3 cp {source} ."
    return subprocess.run(line, shell=True).returncode


if dist.get_rank() == 0:  # finds: single-rank-work possible slows "run subprocess.run"
    if not fetch("x"):
        raise SystemExit(1)
dist.barrier()  # finds: device-mapping possible note
