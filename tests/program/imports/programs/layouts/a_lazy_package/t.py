# launch: torchrun t.py
from pkg import Net
