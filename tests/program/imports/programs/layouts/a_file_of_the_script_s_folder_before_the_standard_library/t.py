# launch: torchrun t.py
import queue
