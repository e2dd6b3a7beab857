"""Ask something of a server on this machine: every answer is bounded in time and size, whatever the server does."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

CHUNK = 1 << 16


def send_request(host: str, port: int, request: bytes, *, limit_s: float, most: int) -> bytes | None:
    """What the server says to ``request`` until it closes; None when nobody answers. Never more than ``most`` bytes
    and ``limit_s`` seconds: what came by then is returned."""
    deadline = time.monotonic() + limit_s
    with suppress(OSError), socket.create_connection((host, port), timeout=min(1.0, limit_s)) as line:
        line.settimeout(max(0.05, deadline - time.monotonic()))
        line.sendall(request)
        return _receive(line, deadline, most)
    return None


def _receive(line: socket.socket, deadline: float, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < most and (left_s := deadline - time.monotonic()) > 0:
        line.settimeout(left_s)
        try:
            part = line.recv(min(CHUNK, most - size))
        except OSError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def http_body(host: str, port: int, method: str, path: str, *, limit_s: float, most: int) -> bytes | None:
    """Body of an HTTP answer with status 200; None for any other answer, or a body that is cut off."""
    length = "Content-Length: 0\r\n" if method == "POST" else ""
    request = f"{method} {path} HTTP/1.0\r\nHost: {host}:{port}\r\n{length}Connection: close\r\n\r\n"
    answer = send_request(host, port, request.encode(), limit_s=limit_s, most=most)
    head, found, body = (answer or b"").partition(b"\r\n\r\n")
    first = head.split(b"\r\n", 1)[0].split()
    if not found or len(first) < 2 or not first[0].startswith(b"HTTP/") or first[1] != b"200":
        return None
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return body[: int(value)] if len(body) >= int(value) else None
    return body if len(answer or b"") < most else None
