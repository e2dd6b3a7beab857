"""Client of the feature store with a cache that a background thread fills ahead of use."""
import json
import socket
import threading


class FeatureClient:
    def __init__(self, port):
        self.port = port
        self.lock = threading.Lock()
        self.cache = {}
        self.conns = []
        self._connect()

    def _connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port))
        self.conns.append(sock)
        self.stream = sock.makefile("rw")

    def _ask(self, item):
        self.stream.write(f"{item}\n")
        self.stream.flush()
        reply = json.loads(self.stream.readline())
        if "error" in reply:
            # the stream may be out of step after an error: take a fresh one
            self._connect()
            return None
        return reply["features"]

    def get(self, item):
        with self.lock:
            if item not in self.cache:
                self.cache[item] = self._ask(item)
            return self.cache[item]

    def prefetch(self, items):
        def fill():
            for item in items:
                with self.lock:
                    if item not in self.cache:
                        self.cache[item] = self._ask(item)

        threading.Thread(target=fill, daemon=True).start()

    def close(self):
        for sock in self.conns:
            sock.close()
