ARGS="--a 1"
if grep -q x /proc/y; then ARGS="$ARGS --b"; N=1; else N=1; fi
torchrun --nproc_per_node $N t.py $ARGS
