source /none.sh  # finds: /none.sh is sourced but cannot be read
torchrun t.py
