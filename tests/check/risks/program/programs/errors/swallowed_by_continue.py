# fine ends the process: RuntimeError => Exception && continue => os._exit(1)
# fine of the keyboard: RuntimeError => KeyboardInterrupt && continue => pass
# fine raised again: continue => raise
# also swallowed by print: RuntimeError => Exception as error && continue => print(error)
import os, time, torch, torch.distributed as dist

model = torch.nn.parallel.DistributedDataParallel(net)
for batch in rows:
    try:
        loss = model(batch)
        loss.backward()  # finds: rank-conditional-collective possible stops
    except RuntimeError:
        continue
