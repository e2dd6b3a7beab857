# launch: torchrun examples/t.py
import lib.a
