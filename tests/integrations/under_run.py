"""A job of one library with its integration, as its launcher starts it: ``under_run.py LIBRARY FOLDER``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

FOLDER = Path(sys.argv[2])
EPOCHS = 6


def transformers() -> None:
    from unhang.integrations.transformers import UnhangCallback

    job = importlib.import_module("test_with_transformers")
    job.trainer(FOLDER, [UnhangCallback()], num_train_epochs=EPOCHS, save_steps=8).train()


def accelerate() -> None:
    from accelerate import Accelerator

    from unhang.integrations.accelerate import guard

    importlib.import_module("test_with_accelerate").accelerated(guard(Accelerator(cpu=True)), FOLDER, rows=80)


def loops() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo")
    importlib.import_module("test_with_accelerate").looped(dist.get_rank())


def lightning() -> None:
    from unhang.integrations.lightning import UnhangCallback

    importlib.import_module("test_with_lightning").fit("lightning.pytorch", FOLDER, [UnhangCallback()], rows=80)


def deepspeed() -> None:
    from unhang.integrations.deepspeed import guard

    job = importlib.import_module("test_with_deepspeed")
    job.trained(guard(job.engine(1)), FOLDER)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
