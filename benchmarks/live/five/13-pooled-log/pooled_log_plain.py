"""One log for all ranks."""
import logging

import torch.distributed as dist


class PooledHandler(logging.Handler):
    """Rank 0 prints what the ranks have to say, equal lines once."""

    def emit(self, record):
        rank, world = dist.get_rank(), dist.get_world_size()
        texts = [None] * world if rank == 0 else None
        dist.gather_object(self.format(record), texts, dst=0)
        if rank == 0:
            for text in dict.fromkeys(texts):
                who = [r for r in range(world) if texts[r] == text]
                print(f"{who} {text}", flush=True)


def setup():
    handler = PooledHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s", "%H:%M"))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
