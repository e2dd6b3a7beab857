# launch: torchrun t.py
import importlib

m = importlib.import_module(f"models.{name}")
