torchrun --nproc_per_node $1 t.py --m $2 --n [$N]
