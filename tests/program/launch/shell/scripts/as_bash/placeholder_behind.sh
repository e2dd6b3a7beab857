torchrun t.py > log --a 1 2>/dev/null --b
