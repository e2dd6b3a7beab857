"""Object store of the lab (local stand-in): shards over HTTP, with a request limit per client."""
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

LIMIT, PERIOD = 240, 60.0
counts = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        client, shard, rows = self.path.strip("/").split("/")
        start, used = counts.get(client, (time.time(), 0))
        if time.time() - start > PERIOD:
            start, used = time.time(), 0
        counts[client] = (start, used + 1)
        if used >= LIMIT:
            self.send_response(429)
            self.send_header("X-RateLimit-Reset", str(int((start + PERIOD) * 1000)))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = np.random.default_rng(int(shard)).normal(size=(int(rows), 20)).astype("f4").tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(sys.argv[1] + ".new", "w") as f:
        f.write(str(server.server_address[1]))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()
