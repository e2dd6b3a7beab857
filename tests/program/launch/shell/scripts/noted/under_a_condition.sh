if nvidia-smi; then torchrun t.py; fi  # finds: how the program is started depends on a condition known only at run time
