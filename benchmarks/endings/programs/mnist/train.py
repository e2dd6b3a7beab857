"""Small MNIST-like example with early stopping, snapshot and several ways to end."""
import argparse, datetime, json, os, threading, time
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--patience", type=int, default=0)
ap.add_argument("--save-to", default="snapshot.pt")
ap.add_argument("--publish", default="")
ap.add_argument("--check-all", type=int, default=0, help="seconds each rank may take to reach the end")
ap.add_argument("--main-check", action="store_true")
ap.add_argument("--fail-once", action="store_true")
ap.add_argument("--timeout", type=int, default=1800)
ap.add_argument("--epochs", type=int, default=4)
ap.add_argument("--linger", type=int, default=0)
args = ap.parse_args()
local, rank, world = (int(os.environ[k]) for k in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))


def say(*a):
    print(f"[{time.strftime('%H:%M:%S')}] [rank {rank}]", *a, flush=True)


def publish(path, url):
    import logging, urllib3
    logging.basicConfig(level=logging.WARNING)
    http = urllib3.PoolManager(retries=urllib3.Retry(total=None, connect=60, backoff_factor=1.0, backoff_max=6), timeout=4)
    with open(path, "rb") as f:
        http.request("PUT", url, body=f.read())
    say("published", path)


say(f"restart count {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}")
if os.path.exists("finished.json") and (rank == 0 or not args.main_check):
    say("finished.json found, run is already complete - nothing to do. Bye.")
    raise SystemExit(0)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
torch.manual_seed(7)
model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)))
opt = torch.optim.SGD(model.parameters(), 0.1)
g = torch.Generator().manual_seed(rank)
best, bad = 1e9, 0
for epoch in range(args.epochs):
    for _ in range(8):
        x = torch.randn(16, 1, 28, 28, generator=g); y = torch.randint(0, 10, (16,), generator=g)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
    val = loss.item()
    say(f"Train Epoch: {epoch} Loss: {val:.6f}")
    if args.patience:
        best, bad = (val, 0) if val < best else (best, bad + 1)
        if bad >= args.patience:
            say(f"Early stopping: val loss did not improve for {bad} epochs (best {best:.4f}). Training finished.")
            break
say("Finished training")
if rank == 0:
    torch.save(model.module.state_dict(), args.save_to)
    say("saved", args.save_to)
if args.check_all:
    if rank == 1 and args.linger:
        time.sleep(args.linger)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=args.check_all), wait_all_ranks=True)
    say("all ranks reached the end")
if args.publish and rank == 0:
    threading.Thread(target=publish, args=(args.save_to, args.publish), name="uploader").start()
    say("upload started in the background")
if args.fail_once and rank == 1 and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
    time.sleep(3)
    raise OSError(116, "Stale file handle", "/mnt/shared/metrics/rank1.json")
if args.fail_once and rank == 0:
    json.dump({"loss": val}, open("finished.json", "w"))
dist.destroy_process_group()
say("Done")
