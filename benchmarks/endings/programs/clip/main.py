# OpenCLIP's own training program on CPU: DDP must not be given device_ids there
import functools, runpy, torch
_init = torch.nn.parallel.DistributedDataParallel.__init__


def init(self, *a, device_ids=None, **k):
    _init(self, *a, **k)


torch.nn.parallel.DistributedDataParallel.__init__ = init
runpy.run_module("open_clip_train.main", run_name="__main__")
