try:
    import gone  # finds: absent gone
except KeyError:
    import here
