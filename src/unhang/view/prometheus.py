"""The measures as Prometheus reads them (library ``prometheus-client``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unhang.errors import MissingExtra
from unhang.report.printable import one_line
from unhang.view.metrics import COUNTER, RunMetric

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(tell: Callable[[], tuple[RunMetric, ...]]) -> bytes:
    """One scrape's answer.

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
    from importlib.util import find_spec

    if find_spec("prometheus_client") is None:
        raise MissingExtra("metrics need prometheus-client", next_step="pip install prometheus-client")
