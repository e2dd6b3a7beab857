# launch: torchrun t.py
import importlib

importlib.import_module("late.x")
