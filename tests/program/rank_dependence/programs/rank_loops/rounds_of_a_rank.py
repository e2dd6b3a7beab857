"""Loops that run as often as the rank says."""


def rounds_counted_by_the_rank():
    steps = 100 // (dist.get_rank() + 1)
    i = 0
    for i in range(10 + dist.get_rank()):
        dist.all_reduce(x)  # finds: loop range(10 + dist.get_rank())


def rounds_over_rows_of_the_rank():
    steps = 100 // (dist.get_rank() + 1)
    i = 0
    for x in data[dist.get_rank() :: dist.get_world_size()]:
        dist.all_reduce(x)  # finds: loop data[dist.get_rank()::dist.get_world_size()]


def rounds_of_as_many_steps():
    steps = 100 // (dist.get_rank() + 1)
    i = 0
    for i, x in enumerate(tqdm(range(steps))):
        dist.all_reduce(x)  # finds: loop enumerate(tqdm(range(steps)))


def rounds_while_steps_are_left():
    steps = 100 // (dist.get_rank() + 1)
    i = 0
    while i < steps:
        dist.all_reduce(x)  # finds: loop i < steps


def left_by_a_rank():
    for i in range(10):
        dist.all_reduce(x)  # finds: loop i == 5 and dist.get_rank() == 1
        if i == 5 and dist.get_rank() == 1:  # finds: loop i == 5 and dist.get_rank() == 1
            break  # finds: if i == 5 and dist.get_rank() == 1
    dist.barrier()
