import os, time, torch, torch.distributed as dist


def norm(grads, group):
    grads = [one.detach() for one in grads]
    if not grads:
        return 0.0
    total = torch.stack(grads).norm() if grads else torch.zeros(())
    dist.all_reduce(total, group=group)  # fine


def some(parameters):
    return [p.grad for p in parameters if p.requires_grad]


norm(some(model.parameters()), group)
