"""Node agent: tells a training process of the maintenance of its slot with SIGUSR1."""
import json
import os
import signal
import sys
import time
from pathlib import Path

pid, slot = int(sys.argv[1]), sys.argv[2]
plan = json.loads(Path(__file__).with_name("maintenance.json").read_text())
if slot in plan:
    time.sleep(plan[slot]["in_seconds"])
    if os.getppid() == pid:
        os.kill(pid, signal.SIGUSR1)
