if nvidia-smi; then torchrun t.py; fi  # finds: whether the program is started as told here depends on a condition that only running tells
