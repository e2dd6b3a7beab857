import os, time, torch, torch.distributed as dist

model = torch.nn.parallel.DistributedDataParallel(net)
for batch in train_loader:
    loss = model(batch)
    if torch.isnan(loss):
        print("nan")
    loss.backward()  # fine
