# fine state written by all: if dist.get_rank() == 0:\n        torch.save({}, folder / STATE_FILE) => torch.save({}, folder / STATE_FILE)
import os, time, torch, torch.distributed as dist

STATE_FILE = "state.pt"


def save(folder):
    if dist.get_rank() == 0:
        torch.save({}, folder / STATE_FILE)


def load(folder):
    path = folder / STATE_FILE
    if path.exists():
        dist.broadcast_object_list([torch.load(path)], src=0)  # finds: rank-conditional-collective possible stops


load(folder)
save(folder)
