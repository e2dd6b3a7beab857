N=$((5 > 3 > 2))  # finds: --nproc_per_node $((5 > 3 > 2)): known only at run time
torchrun --nproc_per_node $N t.py
