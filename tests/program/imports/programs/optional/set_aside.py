import contextlib

with contextlib.suppress(ImportError):
    import gone  # fine
