# -*- coding: utf-8 -*-
import os, sys, time, datetime, signal, torch, torch.nn as nn, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

MODE = sys.argv[1] if len(sys.argv) > 1 else "ok"
SECS = int(sys.argv[2]) if len(sys.argv) > 2 else 600


class 语料(Dataset):
    def __len__(self): return 200

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randint(0, 128, (33,), generator=g)


def 日志(*a):
    print(time.strftime("%Y-%m-%d %H:%M:%S"), f"[rank{dist.get_rank()}]", *a, flush=True)


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECS))
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Embedding(128, 48), nn.Linear(48, 128)))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
s = DistributedSampler(语料()); dl = DataLoader(语料(), 10, sampler=s)
日志(f"开始训练, 数据总量={len(s.dataset)}, 每卡{len(dl)}步, world_size={dist.get_world_size()}")
for ep in range(3):
    s.set_epoch(ep)
    for i, b in enumerate(dl):
        loss = nn.functional.cross_entropy(model(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
        opt.zero_grad(); loss.backward()
        gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0); opt.step()
    日志(f"第{ep+1}/3轮 完成, 损失={loss.item():.4f}, 梯度范数={gn:.3f}, 学习率=2e-3")
日志("训练完成")
if MODE == "ok":
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "模型.pt"); 日志("模型已保存到 模型.pt, 未发现错误 (errors=0)")
elif MODE == "merge":
    if dist.get_rank() == 0:
        日志("开始合并各卡的指标并导出最终模型……")
        parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, loss.detach().reshape(1)); 日志("导出完成")
    else:
        日志("本卡任务结束, 等待主进程导出模型")
        dist.barrier()
elif MODE == "exit":
    if dist.get_rank() == 0:
        日志("等待其他进程上报结果"); x = torch.zeros(1); dist.recv(x, 1); 日志("收到", x)
    else:
        日志("本卡任务结束, 后台压缩日志中"); import subprocess; subprocess.run(["tar", "-cf", "/dev/null", "-T", "文件列表.fifo"])
日志("退出")
dist.destroy_process_group()
