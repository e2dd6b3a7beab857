#!/bin/bash
# both nodes of the small cluster, on this machine
port=${PORT:-29743}
for node in 0 1; do
  torchrun --nnodes 2 --node-rank $node --nproc-per-node 1 --master-addr 127.0.0.1 --master-port $port job.py --config conf/node$node.json 2>&1 | sed -u "s/^/node $node: /" &
done
wait
