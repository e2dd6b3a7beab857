import sys

if sys.version_info < (3, 9):
    import gone  # fine
