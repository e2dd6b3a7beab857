"""Read flight-recorder dumps of PyTorch: pickle and JSON, every format since torch 2.2, every backend.

By default only the end of the ring is read, as far back as the stall reaches; ``whole=True`` reads everything.
"""

from unhang.evidence.flight_recorder.many import OneByOne, read_recordings
from unhang.evidence.flight_recorder.opening import looks_like_flight_recorder, looks_like_pickle
from unhang.evidence.flight_recorder.reading import read_recording

__all__ = ["OneByOne", "looks_like_flight_recorder", "looks_like_pickle", "read_recording", "read_recordings"]
