#!/usr/bin/env bash
# Starts one process per rank and takes a consistent snapshot of out/ while the ranks are paused.
set -u
rm -rf out && mkdir -p out
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=3 OMP_NUM_THREADS=1
export MASTER_PORT=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

pids=()
for rank in 0 1 2; do
    RANK=$rank python job.py &
    pids+=($!)
done
trap 'for p in "${pids[@]}"; do kill -CONT "$p"; kill "$p"; done; exit 1' TERM INT

until [ -f out/predictions-0.csv ] && [ "$(wc -l < out/predictions-0.csv)" -ge 1600 ]; do
    sleep 0.5
done
echo "snapshot: pausing ${#pids[@]} ranks"
kill -STOP "${pids[@]}"
tar -czf snapshot.tar.gz out
kill -CONT $pids
echo "snapshot: done"
wait
