"""A run's measures reach a real Prometheus and a collector, under names that follow the conventions."""

from __future__ import annotations

import gzip
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.machine_samples import UUID, card, series
from tests.ports import free_port
from tests.view.runs import document, run_folder
from unhang.errors import UsageError
from unhang.view.listening import is_loopback, listening_on
from unhang.view.metrics import MAX_RANKS, collect_metrics
from unhang.view.metrics_server import exposition
from unhang.view.reading import RunReading, read_run
from unhang.watch.run_folder import RunFolder
from unhang.wire.documents.live_state import LiveState

TOKEN = "a-token-that-is-long-enough"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="prometheus is not installed"
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """The folder of a run that goes on, as its watcher keeps it."""
    return run_folder(tmp_path, document())


def told(ranks: int = 2, folder: Path = Path("/r")) -> str:
    state = msgspec.json.decode(json.dumps(document(ranks)), type=LiveState)
    return exposition(lambda: collect_metrics(RunReading(folder, True, state))).decode()


def told_with_samples(folder: Path, *rows: dict[str, Any], age_s: float = 1.0, torn: bytes = b"") -> str:
    (folder / "machine").mkdir(exist_ok=True)
    (folder / "machine" / "series.jsonl").write_bytes(series(rows, last_s=time.time() - age_s) + torn)
    return told(folder=folder)


def test_what_is_told_of_a_stall() -> None:
    lines = told().splitlines()

    for line in (
        "unhang_up 1.0",
        "unhang_stalled 1.0",
        "unhang_wait_seconds 7.5",
        "unhang_killed_in_seconds 55.0",
        'unhang_ranks{state="waiting"} 1.0',
        'unhang_rank_wait_seconds{node="h1",rank="1"} 7.5',
        'unhang_rank_steps_total{node="h1",rank="0"} 90.0',
        'unhang_marked_phase_seconds_total{phase="evaluation"} 12.5',
        'unhang_group_lag_collectives{group="default_pg"} 1.0',
        'unhang_verdicts_total{cause="uneven-data"} 1.0',
        "unhang_steps_total 91.0",
        "# TYPE unhang_steps_total counter",
    ):
        assert line in lines


def test_of_a_job_that_only_slows_down_no_stall_is_told() -> None:
    state = msgspec.json.decode(json.dumps(document(stalled=False)), type=LiveState)

    told = {measure.name: measure.values for measure in collect_metrics(RunReading(Path("/r"), True, state))}
    assert told["unhang_stalled"] == (((), 0.0),)


def test_of_many_ranks_only_what_is_made_of_all_of_them() -> None:
    many = told(MAX_RANKS + 1)

    assert "unhang_rank_wait_seconds" not in many
    assert 'unhang_rank_step_spread_seconds{over_ranks="max"} 0.25' in many
    assert len(many) < 8_000


def test_cards_are_told_as_the_newest_sample_has_them(tmp_path: Path) -> None:
    links = {"pcie_rx_bps": 3e9, "pcie_tx_bps": 1e9, "nvlink_rx_bps": 9e9, "nvlink_tx_bps": 8e9}
    newest = {"cards": [card(0, **links), card(1, util=0, power_w=None)]}
    found = told_with_samples(tmp_path, {"cards": [card(0, util=5)]}, newest, torn=b'{"t_s": 1')

    values = {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in found.splitlines())
        if name.startswith("unhang_gpu")
    }
    for name, index, value in (
        ("utilization_ratio", 0, 0.98),
        ("utilization_ratio", 1, 0.0),
        ("memory_used_bytes", 0, 60 << 30),
        ("memory_total_bytes", 1, 80 << 30),
        ("sm_clock_hertz", 0, 1.98e9),
        ("temperature_celsius", 0, 61.0),
        ("power_watts", 0, 520.0),
        ("pcie_receive_bytes_per_second", 0, 3e9),
        ("pcie_transmit_bytes_per_second", 0, 1e9),
        ("nvlink_receive_bytes_per_second", 0, 9e9),
        ("nvlink_transmit_bytes_per_second", 0, 8e9),
    ):
        assert values[f'unhang_gpu_{name}{{gpu="{index}",node="node-a",uuid="{UUID.format(index)}"}}'] == value
    assert found.count("unhang_gpu_power_watts{") == 1  # never a 0 for what was not answered
    if shutil.which("promtool"):
        assert promtool_says(found) == ""


def test_of_cards_that_gave_no_answer_nothing_is_told(tmp_path: Path) -> None:
    assert "unhang_gpu_utilization_ratio" in told_with_samples(tmp_path, {"cards": [card(0)]})
    assert "unhang_gpu" not in told_with_samples(tmp_path, {"cards": [card(0)]}, age_s=300)
    assert "unhang_gpu" not in told_with_samples(tmp_path, {"cards": [card(0)]}, {"cards_because": "no answer"})
    no_memory = told_with_samples(tmp_path, {"cards": [card(0, mem_used=0, mem_total=0)]})
    assert "unhang_gpu_power_watts" in no_memory
    assert "unhang_gpu_memory" not in no_memory


def test_without_a_state_only_that_is_said() -> None:
    assert [measure.name for measure in collect_metrics(RunReading(Path("/r"), True, None))] == ["unhang_up"]


@needs_prometheus
def test_promtool_finds_nothing_to_mend() -> None:
    assert promtool_says(told()) == ""


def promtool_says(metrics: str) -> str:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, timeout=60, check=False
    )
    return checked.stdout + checked.stderr + (f"exit status {checked.returncode}" if checked.returncode else "")


@needs_prometheus
def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "alerts.yml", tmp_path)
    shutil.copy(Path(__file__).with_name("alert_tests.yml"), tmp_path)
    checked = subprocess.run(
        ["promtool", "test", "rules", "alert_tests.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dashboard_and_alerts_ask_only_for_what_is_told() -> None:
    import re

    asked = set(re.findall(r"unhang_[a-z_]+", (EXAMPLES / "grafana-dashboard.json").read_text()))
    asked |= set(re.findall(r"unhang_[a-z_]+", (EXAMPLES / "alerts.yml").read_text()))
    names = set(re.findall(r"^# TYPE (unhang_\w+)", told(), re.MULTILINE))

    assert asked - names == set()
    assert len(json.loads((EXAMPLES / "grafana-dashboard.json").read_text())["panels"]) == 10


@pytest.mark.parametrize("board", ["grafana-dashboard.json", "grafana-history.json"])
def test_grafana_knows_every_word_of_the_dashboard(board: str) -> None:
    """Its own package drops what it does not know."""
    pytest.importorskip("grafana_foundation_sdk", reason="needs Python 3.11")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    written = json.loads((EXAMPLES / board).read_text())
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(written)))

    assert list(lost(written, read, "")) == []
    assert list(lost(written | {"no-such-word": 1}, read, "")) == ["/no-such-word"]


def lost(written: Any, read: Any, path: str) -> Iterator[str]:
    if isinstance(written, dict) and isinstance(read, dict):
        for name, part in written.items():
            yield from lost(part, read[name], f"{path}/{name}") if name in read else [f"{path}/{name}"]
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for at, (part, other) in enumerate(zip(written, read, strict=True)):
            yield from lost(part, other, f"{path}/{at}")
    elif written != read:
        yield path


@contextmanager
def serving(run: RunFolder, where: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    assert run.records is not None
    process = subprocess.Popen(
        [sys.executable, "-m", "unhang.view.metrics_server", str(run.path), str(run.records), where],
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def scrape(port: int, path: str = "/metrics", token: str = "", host: str | None = None) -> tuple[int, str]:
    deadline = time.monotonic() + 60
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", path, headers=headers if host is None else {**headers, "Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_it_is_served_on_loopback_until_the_run_is_over(run: RunFolder) -> None:
    port = free_port()
    with serving(run, str(port), UNHANG_TOKEN=TOKEN) as process:
        assert "unhang_stalled 1.0" in scrape(port, token=TOKEN)[1]
        assert scrape(port, "/", token=TOKEN)[0] == 404
        assert run.said.read_text().startswith(f"unhang: metrics at http://127.0.0.1:{port}/metrics, with the bearer")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize("host", ["", "0.0.0.0:"])
def test_a_token_is_needed(run: RunFolder, host: str) -> None:
    port = free_port()
    with serving(run, f"{host}{port}"):
        assert scrape(port)[0] == 401
        assert scrape(port, token="wrong-wrong-wrong")[0] == 401
        place = run.path / ".unhang" / "token"
        assert place.stat().st_mode & 0o777 == 0o600
        assert scrape(port, token=place.read_text().strip())[0] == 200


def test_without_a_token_where_the_user_wants_it_so(run: RunFolder) -> None:
    port = free_port()
    run.write_plan(replace(run.read_plan(), metrics_open=True))
    with serving(run, str(port)):
        assert "unhang_stalled 1.0" in scrape(port)[1]
        assert run.said.read_text() == f"unhang: metrics at http://127.0.0.1:{port}/metrics\n"


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("where", ["", "0.0.0.0:"])
def test_a_name_that_somebody_made_lead_here_is_refused(run: RunFolder, where: str, opened: bool) -> None:
    """A page in the browser of who works here may ask by a name of its own that leads to loopback."""
    if opened and where:
        return
    port = free_port()
    run.write_plan(replace(run.read_plan(), metrics_open=opened))
    with serving(run, f"{where}{port}", UNHANG_TOKEN=TOKEN):
        for named in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
            assert scrape(port, token=TOKEN, host=named) == (403, "this server is not known by that name\n")
        for named in ("localhost", f"127.0.0.1:{port}", "[::1]:1"):
            assert scrape(port, token=TOKEN, host=named)[0] == 200


def test_connections_are_limited(run: RunFolder) -> None:
    port = free_port()
    with serving(run, str(port), UNHANG_TOKEN=TOKEN) as process:
        scrape(port, token=TOKEN)
        opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(80)]
        time.sleep(0.5)
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 80
        for connection in opened:
            connection.close()
        assert scrape(port, token=TOKEN)[0] == 200


def test_a_port_that_is_taken_is_said_and_nothing_else(run: RunFolder) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with serving(run, str(taken.getsockname()[1])) as process:
            assert process.wait(60) == 2
    assert "metrics cannot be served at" in run.said.read_text()


@pytest.mark.parametrize(("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("h7", False)])
def test_what_loopback_is(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_where_it_may_listen(tmp_path: Path) -> None:
    assert listening_on("9400", tmp_path, {}, with_token=False).token == ""
    assert listening_on("9400", tmp_path, {}).token == (tmp_path / ".unhang" / "token").read_text().strip()
    with pytest.raises(UsageError, match="with a token only"):
        listening_on("0.0.0.0:9400", tmp_path, {}, with_token=False)
    assert listening_on("[::1]:9400", tmp_path, {}).host == "::1"
    own = listening_on("10.0.0.1:9400", tmp_path, {"UNHANG_TOKEN": "a-token-long-enough"})
    assert (own.token, own.is_authorized("Bearer a-token-long-enough"), own.is_authorized("")) == (
        "a-token-long-enough",
        True,
        False,
    )
    for wrong in ("http", "9400x", "1:99999"):
        with pytest.raises(UsageError):
            listening_on(wrong, tmp_path, {})
    with pytest.raises(UsageError, match="shorter"):
        listening_on("0.0.0.0:1", tmp_path, {"UNHANG_TOKEN": "short"})


@needs_prometheus
def test_a_real_prometheus_scrapes_it_and_the_alert_fires(run: RunFolder, tmp_path: Path) -> None:
    port, web = free_port(), free_port()
    settings = (EXAMPLES / "prometheus.yml").read_text().replace("9400", str(port)).replace("10s", "1s")
    (tmp_path / "prometheus.yml").write_text(settings.replace("/etc/prometheus/unhang.token", str(tmp_path / "token")))
    (tmp_path / "token").write_text(TOKEN)
    shutil.copy(EXAMPLES / "alerts.yml", tmp_path)
    command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with serving(run, str(port), UNHANG_TOKEN=TOKEN):
        scrape(port, token=TOKEN)
        prometheus = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{web}"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            answer = ask(web, "/api/v1/query?query=unhang_rank_wait_seconds", lambda found: found["data"]["result"])
            alerts = ask(web, "/api/v1/alerts", stalled_alerts)
            for expression in dashboard_expressions():
                ask(web, f"/api/v1/query?query={urllib.parse.quote(expression)}", lambda found: found["data"]["result"])
        finally:
            prometheus.terminate()
            try:
                prometheus.wait(60)
            finally:
                prometheus.kill()

    waits = {row["metric"]["rank"]: row["value"][1] for row in answer["data"]["result"]}
    assert waits == {"0": "0", "1": "7.5"}
    assert stalled_alerts(alerts)


def dashboard_expressions() -> Iterator[str]:
    for panel in json.loads((EXAMPLES / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$instance", ".*")


def stalled_alerts(found: Any) -> list[Any]:
    return [one for one in found["data"]["alerts"] if one["labels"]["alertname"] == "TrainingStalled"]


def ask(port: int, path: str, enough: Any) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                found = json.load(answer)
            if enough(found):
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.2)
    raise AssertionError(f"{path}: nothing within a minute")


def test_a_collector_gets_the_same_facts(run: RunFolder) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    got: list[Any] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            got.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    often = {"OTEL_METRIC_EXPORT_INTERVAL": "500"}
    with serving(run, "otlp", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **often) as process:
        deadline = time.monotonic() + 60
        while not got:  # it sends what it has once more at its end, and every half a second before
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 0
    server.shutdown()
    server.server_close()

    found = {
        metric.name: metric
        for part in got[-1].resource_metrics
        for scope in part.scope_metrics
        for metric in scope.metrics
    }
    assert found["unhang_stalled"].gauge.data_points[0].as_double == 1.0
    assert found["unhang_steps_total"].sum.is_monotonic
    waits = found["unhang_rank_wait_seconds"].gauge.data_points
    assert {point.attributes[0].value.string_value: point.as_double for point in waits} == {"0": 0.0, "1": 7.5}


def test_the_reading_of_a_snapshot_stays_what_it_was(run: RunFolder) -> None:
    assert read_run(run.path).state is not None
