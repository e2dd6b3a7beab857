# two plain processes, no launcher
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29733 WORLD_SIZE=2
mkdir -p logs
RANK=0 python node.py > logs/rank0.log 2>&1 &
RANK=1 python node.py > logs/rank1.log 2>&1 &
wait
