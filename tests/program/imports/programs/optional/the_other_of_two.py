try:
    import here
except ImportError:
    import gone  # fine
