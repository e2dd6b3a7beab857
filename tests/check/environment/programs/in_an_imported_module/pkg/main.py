# launch: torchrun -m pkg.main
from datetime import timedelta
import torch.distributed as dist
from pkg.setup import start

start()
