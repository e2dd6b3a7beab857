import argparse, datetime, logging, os, sys, time
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--final-test", default="all", choices=["all", "main", "slow"])
parser.add_argument("--wait", action="store_true")
parser.add_argument("--timeout", type=float, default=600)
args = parser.parse_args()
rank = int(os.environ["RANK"])
logging.basicConfig(level=logging.INFO, stream=sys.stdout,
                    format=f"%(asctime)s | %(levelname)s | rank{rank} | %(message)s")
log = logging.getLogger("cifar")


def evaluate(model, loader, tag):
    model.eval()
    hit = torch.zeros(1); n = torch.zeros(1); err = torch.zeros(1)
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            hit += (out.argmax(1) == y).sum(); n += len(y)
            err += nn.functional.cross_entropy(out, y, reduction="sum")
    for t in (hit, n, err):
        dist.all_reduce(t)
    log.info("%s: top1 error %.2f%%  loss %.4f  (%d images)", tag, 100 * (1 - hit / n).item(), (err / n).item(), int(n))


def final_test(model, loader):
    from tqdm import tqdm
    model = model.module.eval()
    hit = n = 0
    for x, y in tqdm(loader, desc="Testing", mininterval=2.0):
        with torch.no_grad():
            hit += (model(x).argmax(1) == y).sum().item(); n += len(y)
        time.sleep(0.8)
    log.info("test accuracy %.4f", hit / n)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
    torch.manual_seed(1234)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, 10))
    model = DDP(net)
    data = TensorDataset(torch.randn(640, 3, 32, 32), torch.randint(0, 10, (640,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 32, sampler=sampler)
    test = DataLoader(data, 16, sampler=DistributedSampler(data, shuffle=False))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    log.info("world size %d, %d train batches", dist.get_world_size(), len(loader))
    for ep in range(args.epochs):
        sampler.set_epoch(ep); model.train()
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
        log.info("epoch %d/%d train loss %.4f", ep + 1, args.epochs, loss.item())
        evaluate(model, test, f"val epoch {ep + 1}")
    log.info("Training complete.")
    if args.final_test == "all":
        evaluate(model, test, "final")
    elif rank == 0:
        if args.final_test == "main":
            log.info("running final evaluation on the main process")
            evaluate(model, test, "final")
        else:
            final_test(model, test)
    if args.wait:
        dist.barrier()
    log.info("Done, exiting.")


if __name__ == "__main__":
    main()
