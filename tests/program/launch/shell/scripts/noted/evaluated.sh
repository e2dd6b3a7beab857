eval $(which x)  # finds: eval of a text that only running tells: $(which x)
torchrun t.py
