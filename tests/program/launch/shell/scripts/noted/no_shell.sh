A=<some path>  # finds: this could not be read as shell, so what follows may be wrong
torchrun t.py
