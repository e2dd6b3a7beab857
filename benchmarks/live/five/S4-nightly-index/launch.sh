#!/bin/bash
# one core per rank; the nightly index of the machine runs on core 1
cores=($(python -c "import os; print(*sorted(os.sched_getaffinity(0))[:2])"))
export CORES="${cores[*]}"
for part in a b c; do
  taskset -c ${cores[1]} python index.py $part &
done
trap 'kill $(jobs -p) 2>/dev/null' EXIT
torchrun --standalone --nproc-per-node 2 ${1:-job.py}
