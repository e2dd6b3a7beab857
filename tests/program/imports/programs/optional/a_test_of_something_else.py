import os

if os.environ.get("X"):
    import gone  # finds: absent gone
else:
    import here
