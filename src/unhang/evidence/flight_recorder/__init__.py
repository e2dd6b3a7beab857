"""Read flight-recorder dumps of PyTorch: pickle and JSON, every format since torch 2.2, every backend.

By default only the end of the ring is read, as far back as the stall reaches; ``whole=True`` reads everything.
"""
