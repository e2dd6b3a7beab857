N=$(nvidia-smi -L | wc -l)  # finds: --nproc_per_node $(nvidia-smi -L | wc -l): known only at run time
torchrun --nproc_per_node=$N t.py
