torchrun t.py $1  # finds: $1: the script was given no such argument
