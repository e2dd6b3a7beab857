torchrun a.py
torchrun b.py  # finds: it also starts b.py, which unhang did not check
