import os, sys, time, datetime
import torch, torch.distributed as dist
# rank 0 had fewer items to send and is at the end; rank 1 still receives
def produce(items):
    for i in range(items):
        dist.send(torch.full((4,), float(i)), 1); time.sleep(0.02)
def consume(items):
    t = torch.zeros(4)
    for i in range(items):
        dist.recv(t, 0)
def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0: produce(97)
    else: consume(100)
    t = torch.ones(1); dist.all_reduce(t)
    dist.destroy_process_group()
main()
