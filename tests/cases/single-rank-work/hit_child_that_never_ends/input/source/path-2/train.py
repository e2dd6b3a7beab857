import logging, multiprocessing, threading, time
import torch
from accel import Accelerator
from net import Net

lock = threading.Lock()


def chatter():
    while True:
        with lock:
            time.sleep(0.1)


def export(step):
    with lock:
        return step


accelerator = Accelerator()
net = Net()
model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
if accelerator.is_main_process:
    threading.Thread(target=chatter, daemon=True).start()
for step in range(200):
    accelerator.backward(model(torch.randn(4, 8)).sum())
    opt.step()
    if step % 10 == 9 and accelerator.is_main_process:
        child = multiprocessing.get_context("fork").Process(target=export, args=(step,))
        child.start()
        child.join()
