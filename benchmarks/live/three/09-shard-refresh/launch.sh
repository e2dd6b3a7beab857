#!/usr/bin/env bash
# usage: launch.sh [ranks]
ranks=${1:-3}
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=$ranks OMP_NUM_THREADS=1
export MASTER_PORT=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python shards.py create "$ranks"
trap 'kill $(jobs -p); exit 1' TERM INT
for ((rank = 0; rank < ranks; rank++)); do
    RANK=$rank python job.py &
done
wait
echo "all ranks are done"
