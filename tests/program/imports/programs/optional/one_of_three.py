try:
    import gone  # fine
except ImportError:
    try:
        import gone_too  # fine
    except ImportError:
        import here
