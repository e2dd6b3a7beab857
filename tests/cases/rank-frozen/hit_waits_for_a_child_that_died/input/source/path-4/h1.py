import os, sys, time, datetime
import torch, torch.distributed as dist
# a reader process is killed; the parent waits at its queue
import multiprocessing as mp
def reader(q):
    for i in range(3): q.put(i)
    os.kill(os.getpid(), 11)
def load():
    q = mp.get_context("fork").Queue()
    p = mp.get_context("fork").Process(target=reader, args=(q,)); p.start()
    out = []
    for i in range(10):
        out.append(q.get())
    return out
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1); dist.all_reduce(t)
    if dist.get_rank() == 0: load()
    dist.barrier()
    dist.destroy_process_group()
main()
