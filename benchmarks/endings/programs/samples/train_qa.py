import datetime, os, time, torch, torch.nn as nn, torch.distributed as dist
import logging, urllib3
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s: %(message)s")
log = logging.getLogger("train_qa")
TEXT = """Q: My job prints 'Killed' and nothing else. A: The kernel OOM killer ended it, look at dmesg.
Q: RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB. What now? A: Use a smaller batch.
Q: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) A: one rank did not arrive.
Q: Segmentation fault (core dumped) in the data loader worker. A: raise the shared memory of the container.
Q: What is exit code 137? A: 128 + 9, the process was killed by SIGKILL.
Q: torch.distributed.DistBackendError: NCCL error, unhandled system error. A: look at NCCL_DEBUG=INFO.
""".splitlines()
dist.init_process_group("gloo"); r, w = dist.get_rank(), dist.get_world_size()


def fetch_vocab():
    retry = urllib3.Retry(total=5, backoff_factor=0.3, status_forcelist=[503])
    http = urllib3.PoolManager(retries=retry)
    return http.request("GET", f"http://127.0.0.1:{os.environ['MIRROR_PORT']}/vocab.txt").data.decode().split("\n")


if r == 0 and "MIRROR_PORT" in os.environ:
    log.info("downloading vocab.txt from the mirror")
    v = fetch_vocab(); log.info("got %d entries", len(v))
dist.barrier()
chars = sorted(set("".join(TEXT))); ix = {c: i for i, c in enumerate(chars)}
if r == 0:
    for k in (0, 2, 4):
        log.info("sample %d: %s", k, TEXT[k])
m = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Embedding(len(chars), 32), nn.Linear(32, len(chars))))
o = torch.optim.Adam(m.parameters(), 1e-2)
skipped = 0
for step in range(60):
    t = TEXT[(step * w + r) % len(TEXT)]
    x = torch.tensor([ix[c] for c in t])
    loss = nn.functional.cross_entropy(m(x[:-1]), x[1:]); o.zero_grad(); loss.backward(); o.step()
    if step % 20 == 19 and r == 0:
        log.info("step %d loss %.4f char error rate %.3f", step + 1, loss.item(), (m.module(x[:-1]).argmax(-1) != x[1:]).float().mean())
if r == 0:
    out, c = "R", ix["R"]
    for _ in range(40):
        c = int(torch.multinomial(torch.softmax(m.module(torch.tensor([c]))[0], 0), 1)); out += chars[c]
    log.info("generation: %r", out)
    torch.save(m.module.state_dict(), "qa.pt"); log.info("model saved to qa.pt")
dist.barrier(); dist.destroy_process_group()
