set -- -n 4 -v
while getopts "n:v" o; do case $o in n) N=$OPTARG;; v) V=1;; esac; done  # finds: --nproc_per_node $N: it depends on the condition on line 2
torchrun --nproc_per_node $N t.py
