try:
    import gone  # finds: absent gone or gone_too
except ImportError:
    import gone_too
