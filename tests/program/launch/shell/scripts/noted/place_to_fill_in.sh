torchrun t.py --root <your_root> --x 1  # finds: <your_root> is a placeholder, which the shell takes for redirections
