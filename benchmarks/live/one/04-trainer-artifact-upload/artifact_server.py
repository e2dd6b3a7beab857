"""Stand-in of the artifact store: takes connections; answers after `delay` seconds (or never)."""
import os
import socket
import sys
import threading
import time

port, delay = int(sys.argv[1]), sys.argv[2]
parent = os.getppid()


def serve(conn):
    conn.settimeout(1.0)
    try:
        while True:
            conn.recv(65536)
    except OSError:
        pass
    if delay == "never":
        time.sleep(100000)
    time.sleep(float(delay))
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    conn.close()


s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", port))
s.listen()
s.settimeout(1.0)
while os.getppid() == parent:
    try:
        c, _ = s.accept()
    except TimeoutError:
        continue
    threading.Thread(target=serve, args=(c,), daemon=True).start()
os._exit(0)
