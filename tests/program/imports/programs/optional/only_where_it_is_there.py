import importlib.util

if importlib.util.find_spec("gone") is not None:
    import gone as g  # fine
