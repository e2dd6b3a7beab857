import faulthandler
import signal
import sys
from datetime import timedelta

try:
    import tomllib
except ImportError:
    import tomli as tomllib

import torch
import torch.distributed as dist
from log import init_logger, logger
from metrics import MetricsProcessor
from model import ModelArgs, Transformer
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard


def load_config(argv: list) -> dict:
    with open(argv[argv.index("--job.config_file") + 1], "rb") as f:
        return tomllib.load(f)


def batches(config: dict, rank: int):
    generator = torch.Generator().manual_seed(config["seed"] + rank)
    while True:
        yield torch.randint(0, 512, (config["local_batch_size"], config["seq_len"] + 1), generator=generator)


@record
def main() -> None:
    # when the scheduler or torchrun ends us, say where we were
    faulthandler.register(signal.SIGTERM, chain=True)
    config = load_config(sys.argv)
    init_logger()
    training = config["training"]
    dist.init_process_group("gloo", timeout=timedelta(seconds=config["comm"]["train_timeout_seconds"]))
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
    logger.info(f"Starting job: {config['job']['description']}")

    torch.manual_seed(training["seed"])
    model = Transformer(ModelArgs())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    logger.info("Applied FSDP to the model")
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["optimizer"]["lr"])
    metrics = MetricsProcessor(config["metrics"], config["job"]["dump_folder"])
    data = batches(training, dist.get_rank())

    logger.info(f"Training starts at step 1, total steps {training['steps']}")
    for step in range(1, training["steps"] + 1):
        tokens = next(data)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), training["max_norm"]).full_tensor()
        optimizer.step()
        metrics.ntokens_since_last_log += tokens.numel()
        if metrics.should_log(step):
            avg_loss = loss.detach() / dist.get_world_size()
            dist.all_reduce(avg_loss)
            metrics.log(step, avg_loss.item(), grad_norm.item(), model)
        optimizer.zero_grad()
    metrics.close()
    logger.info("Training completed")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
