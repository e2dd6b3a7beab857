import argparse, torch, torch.nn as nn
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.logging import get_logger
from datetime import timedelta
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm
import logging
logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", datefmt="%m/%d/%Y %H:%M:%S", level=logging.INFO)
logger = get_logger(__name__)
p = argparse.ArgumentParser(); p.add_argument("--test-main-only", action="store_true"); p.add_argument("--timeout", type=int, default=1800)
p.add_argument("--save-main-only", action="store_true"); p.add_argument("--bf16", action="store_true")
a = p.parse_args()
acc = Accelerator(gradient_accumulation_steps=2, mixed_precision="bf16" if a.bf16 else "no", kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=a.timeout))])
logger.info(acc.state, main_process_only=False)
torch.manual_seed(42)
model = nn.Sequential(nn.EmbeddingBag(1000, 64), nn.ReLU(), nn.Linear(64, 2))
ids, y = torch.randint(0, 1000, (400, 24)), torch.randint(0, 2, (400,))
tr = DataLoader(TensorDataset(ids, y), batch_size=16, shuffle=True); te = DataLoader(TensorDataset(ids[:101], y[:101]), batch_size=16)
opt = torch.optim.AdamW(model.parameters(), 1e-3)
model, opt, tr, te = acc.prepare(model, opt, tr, te)
logger.info("***** Running training *****")
logger.info(f"  Num examples = {len(ids)}")
logger.info(f"  Total train batch size (w. parallel, distributed & accumulation) = {16*acc.num_processes*2}")
bar = tqdm(range(3 * len(tr)), disable=not acc.is_local_main_process)


def evaluate():
    model.eval(); ok = n = 0
    for x, t in te:
        with torch.no_grad():
            pred, ref = acc.gather_for_metrics((model(x).argmax(-1), t))
        ok += (pred == ref).sum().item(); n += len(ref)
    return {"accuracy": ok / n, "error_rate": 1 - ok / n}


for epoch in range(3):
    model.train()
    for x, t in tr:
        with acc.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), t); acc.backward(loss); opt.step(); opt.zero_grad()
        bar.update(1)
    m = evaluate()
    acc.print(f"epoch {epoch}:", m)
bar.close()
print(f"[{acc.process_index}] training is done", flush=True)
if a.test_main_only:
    if acc.is_main_process:
        logger.info("Running final test on main process")
        print("final test:", evaluate(), flush=True)
elif a.save_main_only:
    if acc.is_main_process:
        acc.save_state("final_state")
        logger.info("saved final_state"); acc.wait_for_everyone()
else:
    acc.wait_for_everyone()
    acc.save_model(model, "out")
    logger.info("Configuration and weights saved in out")
acc.end_training()
print(f"[{acc.process_index}] finished", flush=True)
