"""Feature store: prints its port, then answers '<id>\n' with the features as JSON, or an error."""
import json
import os
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HANDLERS = 6


def serve(conn):
    with conn, conn.makefile("rw") as f:
        for line in f:
            item = int(line)
            if item % 97 == 96:
                f.write(json.dumps({"error": f"no features for {item}"}) + "\n")
            else:
                rng = random.Random(item)
                f.write(json.dumps({"features": [rng.gauss(0, 1) for _ in range(16)]}) + "\n")
            f.flush()


def leave_with_parent(parent):
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(64)
print(s.getsockname()[1], flush=True)
threading.Thread(target=leave_with_parent, args=(os.getppid(),), daemon=True).start()
pool = ThreadPoolExecutor(HANDLERS)
while True:
    conn, _ = s.accept()
    pool.submit(serve, conn)
