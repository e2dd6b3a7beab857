import os, sys, time, datetime
import torch, torch.distributed as dist
import threading
def save_thread(model, go):
    while True:
        go.wait(); go.clear()
        time.sleep(0.05 * (1 + 3 * dist.get_rank()))
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, {"n": 1})
def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    go = threading.Event()
    threading.Thread(target=save_thread, args=(model, go), daemon=True, name="checkpoint").start()
    for step in range(4000):
        loss = model(torch.randn(4, 8)).mean()
        model.zero_grad(); loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        if step % 50 == 49:
            go.set()
        time.sleep(0.01)
    dist.destroy_process_group()
main()
