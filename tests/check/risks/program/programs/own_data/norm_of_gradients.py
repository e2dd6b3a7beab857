# fine norm of gradients asked for alike: p.grad is not None => p.requires_grad
# fine norm of gradients safe:     if not grads:\n        return 0.0\n =>
import os, time, torch, torch.distributed as dist


def norm(grads, group):
    grads = [one.detach() for one in grads]
    if not grads:
        return 0.0
    total = torch.stack(grads).norm() if grads else torch.zeros(())
    dist.all_reduce(total, group=group)  # finds: rank-conditional-collective possible stops


def some(parameters):
    return [p.grad for p in parameters if p.grad is not None]


norm(some(model.parameters()), group)
