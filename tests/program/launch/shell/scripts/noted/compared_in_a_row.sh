N=$((5 > 3 > 2))  # finds: --nproc_per_node $((5 > 3 > 2)): only running it tells
torchrun --nproc_per_node $N t.py
