"""Lines that every rank reaches, though they look as if only some did."""


def world_size():
    if dist.get_world_size() > 1:
        dist.barrier()  # fine


def is_distributed_by_local_rank(args):
    if args.local_rank != -1:
        dist.barrier()  # fine


def is_distributed_by_rank():
    rank = int(os.environ.get("RANK", -1))
    if rank >= 0:
        dist.barrier()  # fine


def is_distributed_by_none(rank=None):
    if rank is not None:
        dist.barrier()  # fine


# is distributed, by environment
if "RANK" in os.environ:
    dist.barrier()  # fine


def after_a_branch_that_only_prints():
    if dist.get_rank() == 0:
        print("hello")  # finds: if dist.get_rank() == 0
    dist.barrier()  # fine


def before_the_branch():
    dist.barrier()  # fine
    if dist.get_rank() == 0:
        return  # finds: if dist.get_rank() == 0


def in_the_test_itself():
    if dist.all_gather_object(a, b) and step > 3:  # fine
        pass


def rank_of_a_matrix(x):
    rank = torch.linalg.matrix_rank(x)
    if rank > 3:
        dist.barrier()  # fine


def rank_of_an_adapter(args):
    rank = args.lora_rank
    if rank > 8:
        dist.barrier()  # fine


def rank_in_a_ranking(items):
    for rank, item in enumerate(items):
        if rank == 0:
            dist.barrier()  # fine


def loop_over_all_ranks():
    for r in range(dist.get_world_size()):
        if r > 0:
            dist.barrier()  # fine


def device_of_the_rank():
    model = DDP(model, device_ids=[dist.get_rank()])
    if model.training:
        dist.barrier()  # fine


def first_process_goes_first():
    with accelerator.main_process_first():
        data = load()  # fine


def step():
    for step in range(100):
        if step % 10 == 0:
            dist.barrier()  # fine


def return_in_an_inner_function():
    def show():
        if dist.get_rank() != 0:
            return  # finds: if dist.get_rank() != 0
        print("x")  # finds: return dist.get_rank() != 0

    show()
    dist.barrier()  # fine


def continue_of_an_inner_loop():
    for epoch in range(3):
        for i in range(5):
            if dist.get_rank() == 0:
                continue  # finds: if dist.get_rank() == 0
            print(i)  # finds: continue dist.get_rank() == 0
        dist.barrier()  # fine


def print_in_a_ternary():
    name = "a" if dist.get_rank() == 0 else "b"; dist.barrier()  # fine


def other_branch_of_a_nested_if():
    if step:
        if dist.get_rank() == 0:
            print("x")  # finds: if dist.get_rank() == 0
        dist.barrier()  # fine


# is distributed, named
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    dist.barrier()  # fine
