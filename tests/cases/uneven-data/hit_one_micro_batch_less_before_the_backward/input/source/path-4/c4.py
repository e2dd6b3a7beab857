import os, sys, time, datetime
import torch, torch.distributed as dist
# 1F1B without overlap: rank 0 sends n0 micro batches forward, then receives gradients; rank 1 wants n1 forwards
def forward_pass(n, r):
    for _ in range(n):
        if r == 0: dist.send(torch.zeros(4), dst=1)
        else: dist.recv(torch.zeros(4), src=0)
def backward_pass(n, r):
    for _ in range(n):
        if r == 0: dist.recv(torch.zeros(4), src=1)
        else: dist.send(torch.zeros(4), dst=0)
def run(steps):
    r = dist.get_rank()
    for s in range(steps):
        n = 3 if (s == 50 and r == 0) else 4
        forward_pass(n, r)
        backward_pass(n, r)
        time.sleep(0.02)
def main():
    dist.init_process_group("gloo")
    run(1000)
    dist.destroy_process_group()
main()
