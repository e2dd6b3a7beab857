export MASTER_ADDR=$(hostname)  # finds: MASTER_ADDR $(hostname): only running it tells
torchrun t.py
