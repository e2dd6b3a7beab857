# also key looked for: found: => "loss" in found:
# fine key that must be there: if found: => found["x"].item() &&     dist.all_reduce(x => dist.all_reduce(found["x"]
# fine list of one: = fill() => = [fill()] && if found => for one in found && (x) => (one)
import os, time, torch, torch.distributed as dist


def fill():
    found = {}
    if dist.get_rank() == 3:
        found["loss"] = 1
    return found


found = fill()
if found:
    dist.all_reduce(x)  # finds: rank-conditional-collective possible stops
