# fine download waited for: file_there("x") => with file_there("x"): &&     dist.barrier =>         dist.barrier
import os, time, torch, torch.distributed as dist
from contextlib import contextmanager
from huggingface_hub import snapshot_download


@contextmanager
def file_there(path):
    while not os.path.exists(path):
        time.sleep(1)
    yield


def fetch():
    if dist.get_rank() == 0:  # finds: single-rank-work possible note "in fetch"
        snapshot_download("m")
    file_there("x")  # finds: single-rank-work likely slows "without `with`"
    dist.barrier()


fetch()
