"""Ask whether a port of another node can be reached: ``network_trial.py HOST PORT SECONDS`` prints one JSON object.

It opens a TCP connection, sends nothing and closes it. Run with ``python -I -S``; standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def reach(host: str, port: str, seconds: str) -> str:
    """``open``, ``refused`` (the node is there, nothing listens), ``silent``, or what the system says."""
    try:
        with socket.create_connection((host, int(port)), timeout=float(seconds)):
            return "open"
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silent"
    except OSError as error:
        return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


if __name__ == "__main__":
    json.dump({"answer": reach(*sys.argv[1:])}, sys.stdout)
