"""Stand-in for the storage of the report: a mount that is quick at first, then slow, then stops for minutes.

TensorBoard opens, appends to and closes its file for every value; on a network mount each of that is a round trip.
"""

import os
import time
from pathlib import Path

from tensorboard.compat.tensorflow_stub.io import gfile

QUICK, SLOW = 400, 1600  # appends
SLOW_S, STOPPED_S = 0.05, 25.0  # seconds an append


class Mount(gfile.LocalFileSystem):
    def __init__(self, folder: str):
        self.folder, self.appends = Path(folder).resolve(), 0

    def append(self, filename, file_content, binary_mode=False):
        if self.folder in Path(os.fsdecode(filename)).resolve().parents:
            self.appends += 1
            if self.appends > QUICK:
                time.sleep(SLOW_S if self.appends <= SLOW else STOPPED_S)
        super().append(filename, file_content, binary_mode)


def mount(folder: str) -> None:
    gfile.register_filesystem("", Mount(folder))
