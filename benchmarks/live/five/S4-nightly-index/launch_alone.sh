#!/bin/bash
cores=($(python -c "import os; print(*sorted(os.sched_getaffinity(0))[:2])"))
export CORES="${cores[*]}"
torchrun --standalone --nproc-per-node 2 twin.py
