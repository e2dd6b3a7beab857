# also runs aws: "nvidia-smi" => f"aws s3 cp {source} ." && 0: => 0:  # finds: single-rank-work possible slows "run subprocess.run"
# also runs git: "nvidia-smi" => ["git", "clone", source] && 0: => 0:  # finds: single-rank-work possible slows "run subprocess.run"
# also runs mkdir: "nvidia-smi" => f"mkdir {source}"
import os, time, torch, torch.distributed as dist
import subprocess, datetime

dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=3))


def fetch(source):
    line = "nvidia-smi"
    return subprocess.run(line, shell=True).returncode


if dist.get_rank() == 0:
    if not fetch("x"):
        raise SystemExit(1)
dist.barrier()  # finds: device-mapping possible note
