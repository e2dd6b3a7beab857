"""The measures sent to an OpenTelemetry collector (libraries ``opentelemetry-sdk`` and its OTLP exporter over HTTP).

Only where the user asks with ``--metrics otlp``; where to is OpenTelemetry's own matter
(``OTEL_EXPORTER_OTLP_ENDPOINT`` and its kin: https://opentelemetry.io/docs/specs/otel/protocol/exporter/), and how
often (``OTEL_METRIC_EXPORT_INTERVAL``, milliseconds) where the user set it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from unhang import __version__
from unhang.errors import MissingExtra
from unhang.view.metrics import COUNTER, RunMetric

EVERY_S = 10.0
"""OpenTelemetry's own default, a minute, is long beside a stall."""
LIMIT_S = 5.0


class OtlpSender:
    """Sends until :meth:`stop`. Failures are the exporter's: it says so on standard error, and nothing waits for it."""

    def __init__(self, tell: Callable[[], tuple[RunMetric, ...]], resource: dict[str, str]) -> None:
        require_libraries()
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        self._tell = tell
        self._known: set[str] = set()
        exporter = OTLPMetricExporter(timeout=LIMIT_S)
        every_ms = None if os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") else 1000 * EVERY_S
        reader = PeriodicExportingMetricReader(
            exporter, export_interval_millis=every_ms, export_timeout_millis=1000 * LIMIT_S
        )
        described = Resource.create({"service.name": "unhang", "service.version": __version__, **resource})
        self._provider = MeterProvider(metric_readers=[reader], resource=described)
        self._meter = self._provider.get_meter("unhang", __version__)

    def learn(self) -> None:
        """Measures that are told now for the first time get their instruments."""
        for measure in self._tell():
            if measure.name not in self._known:
                self._known.add(measure.name)
                counter = measure.kind == COUNTER
                make = self._meter.create_observable_counter if counter else self._meter.create_observable_gauge
                make(
                    measure.name, callbacks=[self._observer(measure.name)], unit=measure.unit, description=measure.help
                )

    def _observer(self, name: str) -> Callable[[Any], Iterable[Any]]:
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> Iterable[Any]:
            measure = next((measure for measure in self._tell() if measure.name == name), None)
            if measure is None:
                return
            for labels, value in measure.values:
                yield Observation(value, dict(zip(measure.labels, labels, strict=True)))

        return observe

    def stop(self) -> None:
        """Send what there is once more, and end."""
        self._provider.shutdown(timeout_millis=1000 * LIMIT_S)


def require_libraries() -> None:
    """Raises :class:`MissingExtra` without OpenTelemetry."""
    try:
        there = find_spec("opentelemetry.exporter.otlp.proto.http") is not None and find_spec("opentelemetry.sdk")
    except ModuleNotFoundError:
        there = False
    if not there:
        raise MissingExtra(
            "sending metrics needs OpenTelemetry",
            next_step="pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
        )
