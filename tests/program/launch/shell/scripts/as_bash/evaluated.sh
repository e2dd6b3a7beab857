CMD="torchrun --nproc_per_node 2 t.py --a 'b c'"
eval $CMD
