# two agents on one machine, as two nodes would be
D=$1; shift
mkdir -p $D
LOGLEVEL=INFO torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id job7 --rdzv-endpoint 127.0.0.1:29744 --node-rank 0 job.py "$@" > $D/node0.log 2>&1 &
A=$!
LOGLEVEL=INFO torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id job7 --rdzv-endpoint 127.0.0.1:29744 --node-rank 1 job.py "$@" > $D/node1.log 2>&1 &
B=$!
wait $A $B
