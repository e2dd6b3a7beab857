# launch: torchrun main.py --file rows.py --function load
import argparse
import importlib.util

import numpy as np
import torch.distributed as dist


def module_of(path):
    spec = importlib.util.spec_from_file_location("rows", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--file")
    parser.add_argument("--function")
    args = parser.parse_args()
    np.random.seed(42)
    rows = getattr(module_of(args.file), args.function)("table")
    return rows


if __name__ == "__main__":
    main()
