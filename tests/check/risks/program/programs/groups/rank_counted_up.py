# launch: torchrun --nnodes 2 --nproc_per_node 8 --rdzv_endpoint n0:1 rank_counted_up.py
import os, time, torch, torch.distributed as dist
import torch.multiprocessing as mp


def work(world, rank):
    dist.init_process_group(  # finds: device-mapping possible note
        "nccl", rank=int(os.environ["NODE_RANK"]) * 8 + int(os.environ["LOCAL_RANK"]), world_size=world
    )


def start(index, run, node, size):
    local_rank = index
    run(size, local_rank)


mp.spawn(start, (work, 0, 16), 8)
