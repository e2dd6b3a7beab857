torchrun t.py --a 1 2>&1 | tee log &
wait
