"""What is printed every step, and what goes to TensorBoard."""

import time

import torch
import torch.distributed as dist
import unhang
from log import logger
from torch.utils.tensorboard import SummaryWriter


class TensorBoardLogger:
    def __init__(self, log_dir: str):
        self.writer = unhang.BackgroundWriter(SummaryWriter(log_dir, max_queue=1000))
        logger.info(f"TensorBoard logging enabled. Logs will be saved at {log_dir}")

    def log(self, metrics: dict, model: torch.nn.Module, step: int) -> None:
        for k, v in metrics.items():
            self.writer.add_scalar(k, v, step)
        for name, param in model.named_parameters():
            self.writer.add_histogram(f"params/{name}", param.to_local(), step)
            self.writer.add_histogram(f"grads/{name}", param.grad.to_local(), step)

    def close(self) -> None:
        self.writer.close()


class MetricsProcessor:
    def __init__(self, config: dict, dump_folder: str):
        self.log_freq = config["log_freq"]
        self.logger = None
        if config["enable_tensorboard"] and dist.get_rank() == 0:
            self.logger = TensorBoardLogger(f"{dump_folder}/{config['save_tb_folder']}")
        self.ntokens_since_last_log = 0
        self.time_last_log = time.perf_counter()

    def should_log(self, step: int) -> bool:
        return step == 1 or step % self.log_freq == 0

    def log(self, step: int, loss: float, grad_norm: float, model: torch.nn.Module) -> None:
        time_delta = time.perf_counter() - self.time_last_log
        tps = self.ntokens_since_last_log / time_delta
        end_to_end = time_delta / self.log_freq
        metrics = {
            "loss_metrics/global_avg_loss": loss,
            "grad_norm": grad_norm,
            "throughput(tps)": tps,
            "time_metrics/end_to_end(s)": end_to_end,
        }
        if self.logger is not None:
            self.logger.log(metrics, model, step)
        logger.info(
            f"step: {step:2}  loss: {loss:8.5f}  grad_norm: {grad_norm:7.4f}  "
            f"tps: {round(tps):,}  end_to_end: {end_to_end:.2f}s"
        )
        self.ntokens_since_last_log = 0
        self.time_last_log = time.perf_counter()

    def close(self) -> None:
        if self.logger is not None:
            self.logger.close()
