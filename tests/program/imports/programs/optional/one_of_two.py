try:
    import gone  # fine
except ImportError:
    from here import loads
