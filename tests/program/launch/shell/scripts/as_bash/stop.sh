torchrun t.py
exit 0
torchrun other.py
