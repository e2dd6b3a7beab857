"""``python -m unhang.view.metrics_server RUN_FOLDER RECORDS WHERE``: serve a run's measures until it is over.

A process of its own: nothing in it can hold the watcher or the job up. ``WHERE`` is a port, an address, or ``otlp``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from unhang.errors import MissingExtra, UnhangError
from unhang.report.language import translate
from unhang.report.printable import one_line
from unhang.sentences import say
from unhang.view.limited_server import LimitedHandler, LimitedServer
from unhang.view.listening import ListenAddress, listening_on
from unhang.view.metrics import COUNTER, RunMetric, collect_metrics
from unhang.view.reading import read_run
from unhang.watch.run_folder import RunFolder
from unhang.wire.documents.run_plan import RunPlan

OTLP = "otlp"
POLL_INTERVAL_S = 1.0
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MetricsSource = Callable[[], tuple[RunMetric, ...]]


def exposition(tell: MetricsSource) -> bytes:
    """One scrape's answer, as Prometheus reads it.

    Raises:
        MissingExtra: ``prometheus-client`` is not installed.
    """
    require_library()
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

    class Run(Collector):
        """Asked at each scrape."""

        def collect(self) -> Iterable[Metric]:
            for measure in tell():
                family = CounterMetricFamily if measure.kind == COUNTER else GaugeMetricFamily
                metric = family(measure.name, measure.help, labels=measure.labels)
                for labels, value in measure.values:
                    metric.add_metric([one_line(label) for label in labels], value)
                yield metric

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Run())
    return generate_latest(registry)


def require_library() -> None:
    """Raises :class:`MissingExtra` without ``prometheus-client``."""
    if find_spec("prometheus_client") is None:
        raise MissingExtra("metrics need prometheus-client", next_step="pip install prometheus-client")


class MetricsHandler(LimitedHandler):
    """``GET /metrics`` and nothing else."""

    server: MetricsServer

    def do_GET(self) -> None:  # noqa: N802 - the library's name for it
        """Answer a scrape of ``/metrics``."""
        if not self.server.listening.is_named(self.headers.get("Host", "")):
            self._refuse(403, b"this server is not known by that name\n")
        elif not self.server.listening.is_authorized(self.headers.get("Authorization", "")):
            self._refuse(401, b"a bearer token is needed\n")
        elif self.path.partition("?")[0] != "/metrics":
            self._refuse(404, b"/metrics\n")
        else:
            self.answer(200, {"Content-Type": TEXT_TYPE}, exposition(self.server.tell))

    def _refuse(self, code: int, text: bytes) -> None:
        self.answer(code, {"Content-Type": "text/plain"}, text)


class MetricsServer(LimitedServer):
    """Serves what ``tell`` tells."""

    def __init__(self, listening: ListenAddress, tell: MetricsSource) -> None:
        self.tell = tell
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
