"""What is printed every step, and what goes to TensorBoard."""

import os
import time

import torch.distributed as dist
from log import logger
from torch.utils.tensorboard import SummaryWriter


class BaseLogger:
    """Logger that does nothing, used when logging is disabled."""

    def log(self, metrics: dict, step: int) -> None:
        pass

    def close(self) -> None:
        pass


class TensorBoardLogger(BaseLogger):
    def __init__(self, log_dir: str):
        self.writer = SummaryWriter(log_dir, max_queue=1000)
        logger.info(f"TensorBoard logging enabled. Logs will be saved at {log_dir}")

    def log(self, metrics: dict, step: int) -> None:
        for k, v in metrics.items():
            self.writer.add_scalar(k, v, step)

    def close(self) -> None:
        self.writer.close()


def build_metric_logger(config: dict, dump_folder: str) -> BaseLogger:
    if not config["enable_tensorboard"] or dist.get_rank() != 0:
        return BaseLogger()
    now = time.strftime("%Y%m%d-%H%M")
    return TensorBoardLogger(os.path.join(dump_folder, config["save_tb_folder"], now))


class MetricsProcessor:
    def __init__(self, config: dict, dump_folder: str):
        self.log_freq = config["log_freq"]
        self.logger = build_metric_logger(config, dump_folder)
        self.num_flops_per_token = 6 * 100_000
        self.gpu_peak_flops = 1e11
        self.ntokens_since_last_log = 0
        self.data_loading_times = []
        self.time_last_log = time.perf_counter()

    def should_log(self, step: int) -> bool:
        return step == 1 or step % self.log_freq == 0

    def log(self, step: int, global_avg_loss: float, global_max_loss: float) -> None:
        time_delta = time.perf_counter() - self.time_last_log
        tps = self.ntokens_since_last_log / time_delta
        mfu = 100 * self.num_flops_per_token * tps / self.gpu_peak_flops
        tflops = self.num_flops_per_token * tps / 1e12
        time_end_to_end = time_delta / self.log_freq
        metrics = {
            "loss_metrics/global_avg_loss": global_avg_loss,
            "loss_metrics/global_max_loss": global_max_loss,
            "throughput(tps)": tps,
            "tflops": tflops,
            "mfu(%)": mfu,
            "time_metrics/end_to_end(s)": time_end_to_end,
            "time_metrics/data_loading(s)": sum(self.data_loading_times) / len(self.data_loading_times),
            "time_metrics/data_loading(%)": 100 * sum(self.data_loading_times) / time_delta,
        }
        self.logger.log(metrics, step)
        logger.info(
            f"step: {step:2}  loss: {global_avg_loss:7.4f}  tps: {round(tps):,}  "
            f"tflops: {tflops:,.2f}  mfu: {mfu:.2f}%  end_to_end: {time_end_to_end:.2f}s"
        )
        self.ntokens_since_last_log = 0
        self.data_loading_times.clear()
        self.time_last_log = time.perf_counter()

    def close(self) -> None:
        self.logger.close()
