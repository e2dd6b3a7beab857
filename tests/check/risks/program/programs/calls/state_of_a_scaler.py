import os, time, torch, torch.distributed as dist


class Task(torch.nn.Module):
    def state_dict(self):
        dist.barrier()
        return {}


def save(task, scaler):
    if dist.get_rank() == 0:
        torch.save(scaler.state_dict(), "x")  # fine


def save_all(task):
    if dist.get_rank() == 0:
        torch.save(task.state_dict(), "x")  # finds: rank-conditional-collective likely stops


save(Task(), amp())
save_all(Task())
