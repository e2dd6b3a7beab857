N=$(nvidia-smi -L | wc -l)  # finds: --nproc_per_node $(nvidia-smi -L | wc -l): only running it tells
torchrun --nproc_per_node=$N t.py
