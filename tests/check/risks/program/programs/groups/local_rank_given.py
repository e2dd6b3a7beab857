# launch: torchrun --nnodes 2 --nproc_per_node 8 --rdzv_endpoint n0:1 local_rank_given.py
# launch: torchrun --nnodes 1 --nproc_per_node 8 --rdzv_endpoint n0:1 local_rank_given.py
import os, time, torch, torch.distributed as dist
import torch.multiprocessing as mp


def work(world, rank):
    dist.init_process_group("nccl", rank=int(os.environ["LOCAL_RANK"]), world_size=world)  # finds: rendezvous likely stops "local rank as rank" if --nnodes 2; device-mapping possible note


def start(index, run, node, size):
    local_rank = index
    run(size, local_rank)


mp.spawn(start, (work, 0, 16), 8)
