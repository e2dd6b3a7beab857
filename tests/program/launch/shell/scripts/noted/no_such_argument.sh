torchrun t.py $1  # finds: $1: the script gets no such argument
