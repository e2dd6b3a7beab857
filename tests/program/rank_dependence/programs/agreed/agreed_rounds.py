"""Loops whose rounds a collective decides, and loops that only come after one."""


def steps_for_all(rows):
    shared = torch.tensor([rows])
    dist.all_reduce(shared, op=MIN)
    return int(shared.item())


def agreed_in_a_function():
    steps = min(steps_for_all(rows), 40)
    for step in range(steps):  # finds: dist.all_reduce(shared, op=MIN)
        train()


def agreed_beside():
    count = torch.tensor([len(loader)])
    dist.all_reduce(count, op=MIN)
    steps = int(count.item())
    for step in range(steps):  # finds: dist.all_reduce(count, op=MIN)
        train()


def own_rounds():
    loss = torch.zeros(1)
    dist.all_reduce(loss)
    dist.barrier()
    steps = len(loader)
    for step in range(steps):  # fine
        train()


def report(loss):
    dist.all_reduce(loss)


def rounds_after_a_report():
    report(loss)
    for batch in loader:  # fine
        train()
