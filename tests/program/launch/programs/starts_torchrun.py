# a command that makes the line of torchrun itself
import os, subprocess, sys
from . import worker
from .cards import get_device_count

def main():
    verb = sys.argv.pop(1)
    if verb == "train":
        subprocess.run(
            ("torchrun --nnodes {nodes} --nproc_per_node {count} --master_port {port} {file} {args}").format(
                nodes=os.getenv("NNODES", "1"), count=os.environ.get("NPROC", str(get_device_count())),
                port=pick_port(), file=worker.__file__, args=" ".join(sys.argv[1:])).split()
        )
