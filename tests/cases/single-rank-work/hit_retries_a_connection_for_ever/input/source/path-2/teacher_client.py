"""Access to the teacher service."""
import functools
import os
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client

PORT_FILE = "teacher.port"


@functools.lru_cache(maxsize=1)
def port():
    while not os.path.exists(PORT_FILE):
        time.sleep(0.2)
    with open(PORT_FILE) as f:
        return int(f.read())


def serve(requests):
    """Runs the service, again and again (rank 0)."""
    def loop():
        while True:
            subprocess.run([sys.executable, "teacher.py", PORT_FILE, str(requests)])
            os.remove(PORT_FILE)
            port.cache_clear()
    threading.Thread(target=loop, daemon=True).start()


def logits(rows):
    while True:
        try:
            with Client(("127.0.0.1", port())) as conn:
                conn.send(rows)
                return conn.recv()
        except (ConnectionError, EOFError):
            time.sleep(0.5)
