"""The storage team's S3 gateway, in small: objects in a folder, behind a link with credits for bursts."""

import argparse
import contextlib
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

CHUNK = 1 << 16


class Link:
    """`most` bytes at full speed, everything after them at `rate` bytes a second."""

    def __init__(self, most: float, rate: float):
        self.credits, self.rate, self.free_at = most, rate, 0.0

    def take(self, count: int) -> None:
        self.credits -= count
        if self.credits < 0:
            self.free_at = max(self.free_at, time.monotonic()) + count / self.rate
            time.sleep(max(0.0, self.free_at - time.monotonic()))


class Gateway(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = bytearray()
        for piece in self.pieces():
            self.server.link.take(len(piece))
            body += piece
        self.place().parent.mkdir(parents=True, exist_ok=True)
        if not self.path.endswith("/"):
            self.place().write_bytes(bytes(body))
        self.answer(200)

    def do_HEAD(self):
        place = self.place()
        self.answer(200 if place.is_file() else 404, length=place.stat().st_size if place.is_file() else 0)

    def do_GET(self):
        asked = urlsplit(self.path)
        if "prefix" in parse_qs(asked.query, keep_blank_values=True):
            text = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            self.answer(200, text.encode())
        elif self.place().is_file():
            self.answer(200, self.place().read_bytes())
        else:
            self.answer(404)

    def pieces(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "") or "aws-chunked" in self.headers.get(
            "Content-Encoding", ""
        ):
            while size := int(self.rfile.readline().split(b";")[0], 16):
                left = size
                while left:
                    piece = self.rfile.read(min(left, CHUNK))
                    left -= len(piece)
                    yield piece
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read(min(left, CHUNK))
            left -= len(piece)
            yield piece

    def place(self) -> Path:
        return self.server.folder / urlsplit(self.path).path.strip("/")

    def answer(self, code: int, body: bytes = b"", length: int = -1):
        with contextlib.suppress(ConnectionError):
            self.send_response(code)
            self.send_header("Content-Length", str(len(body) if length < 0 else length))
            self.send_header("ETag", '"0"')
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--burst-mb", type=float, default=200.0)
    parser.add_argument("--rate-mb", type=float, default=9.0)
    args = parser.parse_args()
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    server.folder, server.link = args.folder, Link(args.burst_mb * 1e6, args.rate_mb * 1e6)
    args.port_file.write_text(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main()
