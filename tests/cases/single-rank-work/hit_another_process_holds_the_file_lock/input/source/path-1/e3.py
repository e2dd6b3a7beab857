import os, sys, time, datetime
import torch, torch.distributed as dist
import subprocess
from filelock import FileLock
def prepare():
    with FileLock("/path-1/data.lock"):
        time.sleep(0.1)
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1)
    for i in range(60):
        dist.all_reduce(t); time.sleep(0.02)
    if dist.get_rank() == 1:
        p = subprocess.Popen([sys.executable, "-c", "import fcntl,time;f=open('/path-1/data.lock','w');fcntl.flock(f,2);time.sleep(90)"])
        time.sleep(1)
        prepare()
    for i in range(60):
        dist.all_reduce(t); time.sleep(0.02)
    dist.destroy_process_group()
main()
