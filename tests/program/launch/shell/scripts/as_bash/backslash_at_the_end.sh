torchrun t.py \
  --a 1 \
