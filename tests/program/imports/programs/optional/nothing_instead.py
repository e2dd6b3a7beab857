try:
    import gone  # fine
except ImportError:
    gone = None
