import os, sys, time, datetime
import torch, torch.distributed as dist
import threading, multiprocessing as mp
lock = threading.Lock()
def log_loop():
    while True:
        with lock:
            time.sleep(0.2)
        time.sleep(0.001)
def work(x):
    with lock:
        return x
def preprocess():
    ctx = mp.get_context("fork")
    p = ctx.Process(target=work, args=(1,))
    p.start(); p.join()
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1)
    threading.Thread(target=log_loop, daemon=True, name="metrics-writer").start()
    for i in range(60):
        dist.all_reduce(t); time.sleep(0.02)
    if dist.get_rank() == 1:
        for i in range(20): preprocess()
    for i in range(60):
        dist.all_reduce(t); time.sleep(0.02)
    dist.destroy_process_group()
main()
