"""The watcher's side of the control file: requests outlive the process that made them."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from unhang.wire.control import CONTROL_SIZE, Control, ControlWriter


def open_control(records: Path) -> ControlWriter | None:
    """Continue writing the control file of ``records`` where it stands; made when missing. None when it cannot be."""
    reader = Control.open_read(records)
    try:
        if reader is None:
            return Control.create(records)
        number = os.open(records / "control", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            writer = ControlWriter(mmap.mmap(number, CONTROL_SIZE), records)
        finally:
            os.close(number)
    except OSError:
        return None
    writer.now = reader.read()
    return writer
