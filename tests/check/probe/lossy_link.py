"""A link between two namespaces that loses every n-th packet: a relay between TUN devices, where there is no netem.

``python lossy_link.py NAMESPACE INTERFACE NAMESPACE INTERFACE N`` prints a line when both devices are there, and relays
until its standard input ends; then it prints how many were lost.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_MAX_PACKET_BYTES = 1 << 16


@contextmanager
def lossy(ends: list[tuple[str, str]], every: int) -> Iterator[None]:
    """While inside, ``ends`` (namespace, interface to make) are joined and every n-th packet is lost."""
    words = [word for end in ends for word in end]
    relay = subprocess.Popen(
        [sys.executable, __file__, *words, str(every)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert relay.stdin is not None
    assert relay.stdout is not None
    try:
        assert relay.stdout.readline() == b"ready\n"
        yield
        relay.stdin.close()
        assert int(relay.stdout.readline()) > 0  # else nothing went this way
    finally:
        relay.stdin.close()
        relay.wait(timeout=10)
        relay.stdout.close()


def _device(namespace: str, interface: str) -> int:
    with (Path("/run/netns") / namespace).open() as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), namespace)
    handle = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH", interface.encode(), _IFF_TUN | _IFF_NO_PI))
    return handle


def _relay(ends: list[int], every: int) -> None:
    count = 0
    while True:
        ready, _, _ = select.select([0, *ends], [], [])
        if 0 in ready:
            print(count // every, flush=True)
            return
        for handle in ready:
            packet = os.read(handle, _MAX_PACKET_BYTES)
            count += 1
            if count % every:
                with suppress(OSError):  # the other end is not up yet
                    os.write(ends[1 - ends.index(handle)], packet)


if __name__ == "__main__":
    first, second = _device(sys.argv[1], sys.argv[2]), _device(sys.argv[3], sys.argv[4])
    print("ready", flush=True)
    _relay([first, second], int(sys.argv[5]))
