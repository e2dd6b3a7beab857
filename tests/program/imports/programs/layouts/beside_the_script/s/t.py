# launch: torchrun s/t.py
import helper
