while [[ $# -gt 0 ]]; do case "$1" in --n) N=$2; shift 2;; *) R+=("$1"); shift;; esac; done
torchrun --nproc_per_node=$N t.py "${R[@]}"
