torchrun --nproc_per_node $N t.py  # finds: --nproc_per_node $N: N is not set here
