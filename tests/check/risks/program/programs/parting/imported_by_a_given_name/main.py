import importlib

importlib.import_module("inner")
