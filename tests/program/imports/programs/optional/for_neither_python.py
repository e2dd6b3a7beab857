import sys

if sys.version_info >= (3, 11):
    import gone  # finds: absent gone or gone_too
else:
    import gone_too
