import os, time, torch, torch.distributed as dist

model = torch.nn.parallel.DistributedDataParallel(net)
for batch in rows:
    try:
        loss = model(batch)
        loss.backward()  # finds: rank-conditional-collective possible stops
    except RuntimeError:
        continue
