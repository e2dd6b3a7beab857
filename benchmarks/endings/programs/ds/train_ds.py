import argparse, os, time, torch, torch.nn as nn, deepspeed, datetime
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
p = argparse.ArgumentParser(); p.add_argument("--local_rank", type=int, default=0); p.add_argument("--save", default="all"); p.add_argument("--fp16", action="store_true"); p.add_argument("--secs", type=int, default=600)
p.add_argument("--scale_power", type=int, default=16)
a = p.parse_args()
deepspeed.init_distributed(dist_backend="gloo", timeout=datetime.timedelta(seconds=a.secs))
torch.manual_seed(3)
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
cfg = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "steps_per_print": 5, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True, "wall_clock_breakdown": False,
       "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}}
if a.fp16:
    cfg["fp16"] = {"enabled": True, "initial_scale_power": a.scale_power}
engine, opt, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=cfg)
rank = torch.distributed.get_rank()
for step in range(20):
    x = torch.randn(8, 32, dtype=torch.half if a.fp16 else torch.float)
    loss = (engine(x) - x).float().pow(2).mean()
    engine.backward(loss); engine.step()
    if step % 5 == 4 and rank == 0:
        print(f"step {step+1} loss {loss.item():.4f}", flush=True)
print(f"rank {rank}: training finished", flush=True)
if a.save == "all":
    engine.save_checkpoint("ckpt", tag="final")
elif rank == 0:
    engine.save_checkpoint("ckpt", tag="final"); print("checkpoint saved", flush=True)
elif a.save == "main-sync":
    print(f"rank {rank}: nothing left to do", flush=True); torch.distributed.barrier()
