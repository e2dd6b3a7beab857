# launch: torchrun main.py --kind table
# launch: torchrun main.py --kind pictures
import argparse

import torch.distributed as dist
from sources import Pictures, Table

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="table")
args = parser.parse_args()
if args.kind == "pictures":
    data = Pictures("folder")
else:
    data = Table("file")
