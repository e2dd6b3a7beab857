#!/usr/bin/env bash
# The node is shared: every process may map 3 GB at most.
ulimit -v "${MEM_KB:-3500000}"
export OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=2
exec python -m torch.distributed.run --standalone --nproc-per-node "${NPROC:-2}" job.py "$@"
