import sys

if sys.platform == "win32":
    import gone  # fine
