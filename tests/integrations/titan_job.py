"""torchtitan's own entry point with a tiny configuration on CPU: ``titan_job.py --module titan_job --config tiny``.

torchtitan looks for an accelerator and takes CUDA where there is none; here it is told that the CPU is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed.fsdp

torch._utils._get_available_device_type = lambda: "cpu"  # type: ignore[attr-defined]

torch.cpu.get_device_name = lambda *_: "cpu"  # type: ignore[attr-defined]
torch.cpu.get_device_properties = lambda *_: SimpleNamespace(total_memory=1 << 30)  # type: ignore[attr-defined]
torch.cpu.memory_stats = lambda *_: {}  # type: ignore[attr-defined]
for _name in ("reset_peak_memory_stats", "empty_cache"):
    setattr(torch.cpu, _name, lambda *_: None)
torch.distributed.fsdp.FSDPModule.set_gradient_divide_factor = lambda *_: None  # Gloo multiplies no sums

import torchtitan.distributed.utils  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.models.common.attention import FlexAttention, ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: E402

torchtitan.distributed.utils.set_pg_timeouts = lambda **_: None  # asks for the number of a card
WORDS = 64


class NoWords(BaseTokenizer):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config: Any, **_: Any) -> None:
        self.eos_id = 0

    def encode(self, *_: Any, **__: Any) -> list[int]:
        return []

    def decode(self, *_: Any, **__: Any) -> str:
        return ""

    def get_vocab_size(self) -> int:
        return WORDS


class Numbers(BaseDataLoader):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config: Any, *, dp_rank: int, seq_len: int, local_batch_size: int, **_: Any) -> None:
        self._rank, self._shape = dp_rank, (local_batch_size, seq_len + 1)

    def __iter__(self) -> Iterator[Any]:
        made = torch.Generator().manual_seed(self._rank)
        while True:
            tokens = torch.randint(0, WORDS, self._shape, generator=made)
            yield {"input": tokens[:, :-1]}, tokens[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None:
        pass


def tiny() -> Any:
    config = llama3_debugmodel()
    for _, _, parent, name in config.model_spec.model.traverse(FlexAttention.Config):  # compiled for cards only
        setattr(parent, str(name), ScaledDotProductAttention.Config())
    config.tokenizer, config.dataloader = NoWords.Config(), Numbers.Config()
    config.training.steps, config.training.seq_len, config.training.local_batch_size = 4, 16, 2
    config.training.disable_cuda_graphs = True
    config.parallelism.spmd_backend = "partial_dtensor"
    config.checkpoint.enable, config.checkpoint.interval = True, 2
    config.metrics.enable_tensorboard = True
    config.debug.seed = 5
    if os.environ.get("ODD_RANK") == os.environ.get("RANK"):
        config.training.gc_freq = 7
    return config


if __name__ == "__main__":
    from torchtitan import train

    train.main()
