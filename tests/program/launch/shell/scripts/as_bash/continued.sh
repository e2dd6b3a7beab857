A=1 \
  B=2 \
torchrun --nproc_per_node 2 \
  t.py --a \
  b
