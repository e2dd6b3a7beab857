import os, time, torch, torch.distributed as dist

model = torch.nn.parallel.DistributedDataParallel(net)
for batch in train_loader:
    loss = model(batch)
    if torch.isnan(loss):
        continue
    loss.backward()  # finds: rank-conditional-collective possible stops
