import datetime, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh


def build(mesh):
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(3)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@torch.no_grad()
def generate_sample(model):
    return model(torch.randn(1, 32)).sum().item()


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=200))
    model = build(init_device_mesh("cpu", (dist.get_world_size(),)))
    opt = torch.optim.AdamW(model.parameters())
    for it in range(1, 60):
        model(torch.randn(4, 32)).pow(2).mean().backward()
        opt.step()
        opt.zero_grad()
        if it % 8 == 0 and dist.get_rank() == 0:
            print("sample", generate_sample(model))


if __name__ == "__main__":
    main()
