import sys
import time
from datetime import timedelta

try:
    import tomllib
except ImportError:
    import tomli as tomllib

import slow_storage
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


def dist_reduce(x: torch.Tensor, op) -> float:
    dist.all_reduce(x, op)
    return x.item()


@record
def main() -> None:
    config = load_config(sys.argv)
    init_logger()
    slow_storage.mount("shared")
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
    metrics_processor = MetricsProcessor(config["metrics"], config["job"]["dump_folder"])
    data_iterator = batches(training, dist.get_rank())

    logger.info("Training starts at step 1.")
    for step in range(1, training["steps"] + 1):
        began = time.perf_counter()
        tokens = next(data_iterator)
        metrics_processor.ntokens_since_last_log += tokens.numel()
        metrics_processor.data_loading_times.append(time.perf_counter() - began)
        optimizer.zero_grad()
        pred = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(pred.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training["max_norm"])
        optimizer.step()
        if metrics_processor.should_log(step):
            loss = loss.detach()
            global_avg_loss = dist_reduce(loss / dist.get_world_size(), dist.ReduceOp.SUM)
            global_max_loss = dist_reduce(loss.clone(), dist.ReduceOp.MAX)
            metrics_processor.log(step, global_avg_loss, global_max_loss)
    metrics_processor.close()
    logger.info("Training completed")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
