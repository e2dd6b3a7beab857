start() { local n=$1; shift; torchrun --nproc_per_node=$n "$@"; }
start 4 t.py --x y
