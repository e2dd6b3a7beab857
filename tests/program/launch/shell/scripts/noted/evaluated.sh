eval $(which x)  # finds: eval of a text known only at run time: $(which x)
torchrun t.py
