"""A process whose guards are still at work on the store ends as it would without them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.job

ENDS = """
import torch.distributed as dist
from unhang.guards.exchange.store_connection import StoreConnection
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
own = dist.TCPStore("127.0.0.1", store.port, None, False, wait_for_workers=False)
line = StoreConnection(lambda: own)
line.do(lambda store: store.add("n", 1))
for number in range(20000):  # about half a second of work
    line.schedule(lambda store: store.add("n", 1))
print("END")
"""


def test_a_process_ends_well_while_operations_are_under_way() -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=False)

        assert (done.returncode, done.stdout, done.stderr) == (0, "END\n", "")
