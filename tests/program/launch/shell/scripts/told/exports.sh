export NCCL_DEBUG=INFO
HIDDEN=1
LATE=2
export LATE
unset GONE
NCCL_IB_DISABLE=1 torchrun t.py
