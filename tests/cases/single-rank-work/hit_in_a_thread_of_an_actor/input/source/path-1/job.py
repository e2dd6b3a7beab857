import os, socket, threading, time
from datetime import timedelta
import ray, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0)); return s.getsockname()[1]

def relabel(rows):
    total = 0
    while True:
        for r in range(rows):
            total += (r * 7919) % 13
    return total

def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=timedelta(hours=1))
    model = DDP(nn.Linear(8, 2)); opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(16, 8)).square().mean()
        opt.zero_grad(); loss.backward(); opt.step(); time.sleep(0.05)
        if step == 100 and rank == 1:
            relabel(5000)

@ray.remote(num_cpus=0.5)
class Worker:
    def begin(self, rank, port):
        self.thread = threading.Thread(target=train, args=(rank, port), daemon=True); self.thread.start()
    def state(self):
        return self.thread.is_alive()

ray.init(num_cpus=2, include_dashboard=False)
port = free_port()
workers = [Worker.remote() for _ in range(2)]
ray.get([w.begin.remote(r, port) for r, w in enumerate(workers)])
while all(ray.get([w.state.remote() for w in workers])):
    time.sleep(2)
