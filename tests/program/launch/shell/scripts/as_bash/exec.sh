exec torchrun t.py --a 1
