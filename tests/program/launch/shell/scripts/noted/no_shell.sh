A=<some path>  # finds: this cannot be parsed as shell, so what follows may be wrong
torchrun t.py
