# launch: torchrun src/pkg/t.py
from pkg.trainer import T
