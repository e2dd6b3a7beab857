"""``python -m unhang.view.metrics_server RUN_FOLDER RECORDS WHERE``: serve a run's measures until it is over.

A process of its own: nothing in it can hold the watcher or the job up. ``WHERE`` is a port, an address, or ``otlp``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from unhang.errors import UnhangError
from unhang.report.language import translate
from unhang.sentences import say
from unhang.view.limited_server import STEP_LIMIT_S, LimitedServer
from unhang.view.listening import ListenAddress, listening_on
from unhang.view.metrics import RunMetric, collect_metrics
from unhang.view.prometheus import TEXT_TYPE, exposition, require_library
from unhang.view.reading import read_run
from unhang.watch.run_folder import RunFolder
from unhang.wire.documents.run_plan import RunPlan

OTLP = "otlp"
MAX_AT_ONCE = 8
POLL_INTERVAL_S = 1.0
MetricsSource = Callable[[], tuple[RunMetric, ...]]


class MetricsHandler(BaseHTTPRequestHandler):
    """``GET /metrics`` and nothing else."""

    timeout = STEP_LIMIT_S
    server: MetricsServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "unhang", ""

    def do_GET(self) -> None:
        """Answer a scrape of ``/metrics``."""
        if not self.server.listening.is_named(self.headers.get("Host", "")):
            self._answer(403, b"this server is not known by that name\n", "text/plain")
        elif not self.server.listening.is_authorized(self.headers.get("Authorization", "")):
            self._answer(401, b"a bearer token is needed\n", "text/plain")
        elif self.path.partition("?")[0] != "/metrics":
            self._answer(404, b"/metrics\n", "text/plain")
        elif not self.server.places.acquire(blocking=False):
            self._answer(503, b"too many at once\n", "text/plain")
        else:
            try:
                self._answer(200, exposition(self.server.tell), TEXT_TYPE)
            finally:
                self.server.places.release()

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the library's name for it
        """Nothing: who scrapes is nobody's business."""


class MetricsServer(LimitedServer):
    """Serves what ``tell`` tells."""

    def __init__(self, listening: ListenAddress, tell: MetricsSource) -> None:
        self.tell = tell
        self.places = threading.BoundedSemaphore(MAX_AT_ONCE)
        super().__init__(listening, MetricsHandler)


def start_serving(run: RunFolder, where: str, tell: MetricsSource, plan: RunPlan) -> Callable[[], None]:
    """Begin to serve; returns what ends it.

    Raises:
        UnhangError: ``where`` cannot be served at.
    """
    if where == OTLP:
        return _send(run.path, tell)
    require_library()
    listening = listening_on(where, run.path, with_token=not plan.metrics_open)
    try:
        server = MetricsServer(listening, tell)
    except OSError as error:
        raise UnhangError(f"metrics cannot be served at {where} ({error.strerror}): name another port") from error
    _announce_address(run, plan.lang, f"{server.root}/metrics", token=bool(listening.token))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.shutdown


def _send(folder: Path, tell: MetricsSource) -> Callable[[], None]:
    from unhang.view.otlp import OtlpSender

    sender = OtlpSender(tell, {"unhang.run.folder": str(folder)})
    over = threading.Event()

    def learn() -> None:
        while not over.wait(POLL_INTERVAL_S):
            sender.learn()

    sender.learn()
    threading.Thread(target=learn, daemon=True).start()

    def end() -> None:
        over.set()
        sender.learn()
        sender.stop()

    return end


def _announce_address(run: RunFolder, lang: str, address: str, *, token: bool) -> None:
    text = say("metrics at {address}", address=address)
    if token:
        place = str(run.path / ".unhang" / "token")
        text = say(
            "metrics at {address}, with the bearer token in UNHANG_TOKEN or {place}", address=address, place=place
        )
    run.say(f"unhang: {translate(text, lang)}\n")


def main() -> int:
    """Serve until the parent, or the run, is gone."""
    run, where = RunFolder(Path(sys.argv[1]), Path(sys.argv[2])), sys.argv[3]
    parent, over = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())

    def tell() -> tuple[RunMetric, ...]:
        return collect_metrics(read_run(run.path))

    try:
        end = start_serving(run, where, tell, run.read_plan())
    except UnhangError as error:
        run.say(f"unhang: {error}\n")
        return 2
    while os.getppid() == parent and not over.wait(POLL_INTERVAL_S):
        with suppress(UnhangError):
            read_run(run.path)  # asks the watcher to keep the state up to date
    end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
