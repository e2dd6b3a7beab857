if ping x; then export NCCL_DEBUG=INFO; fi  # finds: NCCL_DEBUG $NCCL_DEBUG: it depends on the condition on line 1
torchrun t.py
