import os, time, torch, torch.distributed as dist


def norm(grads, group):
    grads = [one.detach() for one in grads]
    total = torch.stack(grads).norm() if grads else torch.zeros(())
    dist.all_reduce(total, group=group)  # fine


def some(parameters):
    return [p.grad for p in parameters if p.grad is not None]


norm(some(model.parameters()), group)
