"""Frames of 512 floats, from a recording or from the plant's process (with a window of unconfirmed frames)."""
import ctypes
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

FRAME = 512
CONFIRM_EVERY = 240


class Recording:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def next(self):
        return self.rng.standard_normal(FRAME).astype(np.float32)

    def close(self):
        pass


class LivePlant:
    def __init__(self, ahead=16):
        self.libc = ctypes.PyDLL(None, use_errno=True)
        self.plant = subprocess.Popen([sys.executable, str(Path(__file__).with_name("plant.py")), str(CONFIRM_EVERY)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.fd = self.plant.stdout.fileno()
        self.frames = queue.Queue(maxsize=ahead)
        self.count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read_frame(self):
        """Straight into the array, without a copy through bytes."""
        frame = np.empty(FRAME, dtype=np.float32)
        at, left = frame.ctypes.data, frame.nbytes
        while left:
            got = self.libc.read(self.fd, ctypes.c_void_p(at), ctypes.c_size_t(left))
            if got <= 0:
                raise OSError(ctypes.get_errno(), "plant gone")
            at, left = at + got, left - got
        return frame

    def _read(self):
        while True:
            self.frames.put(self._read_frame())

    def next(self):
        frame = self.frames.get()
        self.count += 1
        if self.count % CONFIRM_EVERY == 0:
            os.write(self.plant.stdin.fileno(), b"+")
        return frame

    def close(self):
        self.plant.terminate()
