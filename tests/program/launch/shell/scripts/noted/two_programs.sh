torchrun a.py
torchrun b.py  # finds: it starts b.py as well, which was not looked at
