import os, sys, time, datetime
import torch, torch.distributed as dist
# rank 1 makes fewer groups, from its own configuration
def make_groups(n):
    return [dist.new_group(list(range(dist.get_world_size()))) for _ in range(n)]
def train(group):
    t = torch.ones(1)
    for i in range(500):
        dist.all_reduce(t, group=group); time.sleep(0.02)
def main():
    dist.init_process_group("gloo")
    count = len(os.environ.get("EXTRA", "aa" if os.environ["RANK"] == "1" else "aaa"))
    groups = make_groups(count)
    train(groups[0])
    dist.destroy_process_group()
main()
