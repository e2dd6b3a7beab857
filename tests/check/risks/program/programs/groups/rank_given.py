# launch: torchrun --nnodes 2 --nproc_per_node 8 --rdzv_endpoint n0:1 rank_given.py
import os, time, torch, torch.distributed as dist
import torch.multiprocessing as mp


def work(world, rank):
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=world)  # finds: device-mapping possible note


def start(index, run, node, size):
    local_rank = index
    run(size, local_rank)


mp.spawn(start, (work, 0, 16), 8)
