export MASTER_ADDR=$(hostname)  # finds: MASTER_ADDR $(hostname): known only at run time
torchrun t.py
