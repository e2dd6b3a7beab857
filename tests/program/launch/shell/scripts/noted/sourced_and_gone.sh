source /none.sh  # finds: /none.sh is sourced and could not be read
torchrun t.py
