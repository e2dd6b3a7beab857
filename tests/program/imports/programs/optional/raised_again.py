try:
    import gone  # finds: absent gone
except ImportError as e:
    raise SystemExit("install it") from e
