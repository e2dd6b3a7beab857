import os, sys, time, datetime
import torch, torch.distributed as dist
import socket, threading, requests
def serve():
    s = socket.socket(); s.bind(("127.0.0.1", 39452)); s.listen(50)
    keep = []
    while True:
        keep.append(s.accept())
def log_metrics(step):
    requests.post("http://127.0.0.1:39452/log", json={"step": step})
def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        threading.Thread(target=serve, daemon=True).start()
    t = torch.ones(1)
    for i in range(100):
        dist.all_reduce(t); time.sleep(0.02)
        if i == 60 and dist.get_rank() == 0:
            log_metrics(i)
    dist.destroy_process_group()
main()
