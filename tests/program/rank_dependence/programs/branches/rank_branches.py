"""Lines that only some ranks reach."""

from os import getenv
import os
import torch.distributed as dist


def get_rank_in_the_test():
    if dist.get_rank() == 0:
        dist.all_reduce(x)  # finds: if dist.get_rank() == 0


def else_of_a_rank_test():
    me = dist.get_rank()
    if me == 0:
        pass  # finds: if me == 0
    else:
        dist.barrier()  # finds: else me == 0


def elif_():
    me = dist.get_rank()
    if flag:
        pass
    elif me > 2:
        dist.barrier()  # finds: if me > 2


def derived_boolean():
    rank, world = dist.get_rank(), dist.get_world_size()
    odd = rank % 2 == 1
    chosen = odd and world > 2
    if not chosen:
        dist.barrier()  # finds: if not chosen


# attribute of accelerate
def save(accelerator):
    if accelerator.is_main_process:
        accelerator.wait_for_everyone()  # finds: if accelerator.is_main_process


# own attribute
class Trainer:
    def __init__(self):
        self.me = dist.get_rank()
        self.writes = self.me == 0

    def end(self):
        if self.writes:
            dist.barrier()  # finds: if self.writes


def leader():
    return dist.get_rank() == 0


def own_function():
    if leader():
        dist.barrier()  # finds: if leader()


def report(number):
    if number == 0:
        dist.barrier()  # finds: if number == 0


def passed_parameter():
    report(dist.get_rank())


# passed keyword through two functions
def inner(x, number):
    if number == 0:
        dist.barrier()  # finds: if number == 0


def outer(n):
    inner(1, number=n)


outer(int(os.environ["RANK"]))


# spawned process
def worker(index, world):
    dist.init_process_group("gloo", rank=index, world_size=world)
    if index == 1:
        dist.barrier()  # finds: if index == 1


mp.spawn(worker, args=(4,), nprocs=4)


def early_return(rank):
    if rank != 0:
        return  # finds: if rank != 0 by name
    dist.barrier()  # finds: return rank != 0 by name


def early_return_further_out():
    if dist.get_rank() != 0:
        print("not me")  # finds: if dist.get_rank() != 0
        return None  # finds: if dist.get_rank() != 0
    with open("x") as f:  # finds: return dist.get_rank() != 0
        for _ in range(3):  # finds: return dist.get_rank() != 0
            dist.barrier()  # finds: return dist.get_rank() != 0


def continue_():
    for i in range(10):
        if i % 2 == 0 and local_rank == 1:
            continue  # finds: if i % 2 == 0 and local_rank == 1
        dist.all_reduce(x)  # finds: continue i % 2 == 0 and local_rank == 1


def raise_(global_rank):
    if global_rank == 3:
        raise ValueError("boom")  # finds: if global_rank == 3
    dist.barrier()  # finds: raise global_rank == 3


def ternary():
    x = dist.all_gather_object(a, b) if dist.get_rank() == 0 else None  # finds: ternary dist.get_rank() == 0


def and_():
    dist.get_rank() == 0 and dist.barrier()  # finds: and-or dist.get_rank() == 0


def match():
    match dist.get_rank():
        case 0:
            dist.barrier()  # finds: match dist.get_rank()
        case _:
            pass  # finds: match dist.get_rank()


# decorator
@rank_zero_only
def save(model):
    dist.barrier()  # finds: decorator rank_zero_only


# decorator of an object
class T:
    @accelerator.on_main_process
    def save(self, model):
        if model:  # finds: decorator accelerator.on_main_process
            dist.barrier()  # finds: decorator accelerator.on_main_process


async def async_function():
    r = dist.get_rank()
    async with lock:
        if r == 0:
            dist.barrier()  # finds: if r == 0


def closure():
    r = dist.get_rank()

    def step():
        if r:
            dist.barrier()  # finds: if r

    step()


def walrus():
    if (r := dist.get_rank()) == 0:
        pass  # finds: if (r := dist.get_rank()) == 0
    if r == 1:
        dist.barrier()  # finds: if r == 1


# first process of transformers
def load(args):
    if args.local_rank not in [-1, 0]:
        torch.distributed.barrier()  # finds: if args.local_rank not in [-1, 0]


def test_over_several_lines():
    if (
        step % 100 == 0
        and accelerator.process_index == 0
    ):
        evaluate(  # finds: if step % 100 == 0 and accelerator.process_index == 0
            model,  # finds: if step % 100 == 0 and accelerator.process_index == 0
            loader,  # finds: if step % 100 == 0 and accelerator.process_index == 0
        )  # finds: if step % 100 == 0 and accelerator.process_index == 0


def choice_by_table():
    steps = {0: 10, 1: 12}.get(dist.get_rank(), 10)
    if steps > 10:
        dist.barrier()  # finds: if steps > 10


def set_by_branch():
    n = 10 if dist.get_rank() == 0 else 12
    if n == 12:
        dist.barrier()  # finds: if n == 12


# environment variable
who = int(os.environ["RANK"])
if who % 2:
    dist.barrier()  # finds: if who % 2


# environment variable with default
lead = getenv("LOCAL_RANK", "0") == "0"


def f():
    while work():
        if lead:
            dist.barrier()  # finds: if lead
