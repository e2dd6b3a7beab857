import argparse, datetime, multiprocessing, os, time
import torch, torch.nn as nn, torch.distributed as dist, torch.multiprocessing as mp


def prefetch(q):
    i = 0
    while True:
        q.put((i, torch.randn(8, 12).tolist())); i += 1


def worker(rank, world, a):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port))
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=a.timeout))
    torch.manual_seed(rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(12, 12))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    q = proc = None
    if a.prefetch and rank == 0:
        q = multiprocessing.Queue(4); proc = multiprocessing.Process(target=prefetch, args=(q,), name="prefetcher"); proc.start()
        print(f"process {rank}: prefetcher pid {proc.pid}", flush=True)
    for step in range(1, 41):
        x = torch.tensor(q.get()[1]) if q is not None else torch.randn(8, 12)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if step % 10 == 0:
            print(f"process {rank}: step {step}/40 mse {loss.item():.5f}", flush=True)
    print(f"process {rank}: finished training", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    print(f"process {rank}: cleanup done", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--world", type=int, default=2); p.add_argument("--port", type=int, default=29611)
    p.add_argument("--timeout", type=int, default=60); p.add_argument("--prefetch", action="store_true")
    a = p.parse_args()
    t = time.time()
    ctx = mp.get_context("spawn")
    procs = [ctx.Process(target=worker, args=(r, a.world, a), name=f"trainer-{r}") for r in range(a.world)]
    for x in procs: x.start()
    for x in procs: x.join()
    print(f"all workers joined after {time.time()-t:.1f}s, exit codes {[x.exitcode for x in procs]}", flush=True)
