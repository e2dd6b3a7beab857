#!/usr/bin/env bash
set -eu
export GLOO_SOCKET_IFNAME=eth1
# as NCCL does: connect in the first collective, not when the group is made
export TORCH_GLOO_LAZY_INIT=1
exec torchrun --nnodes 2 --node_rank "$NODE_RANK" --nproc_per_node 1 --master_addr "$MASTER_ADDR" --master_port 29519 \
    train.py qwen_lora_sft.yaml use_cpu=true
