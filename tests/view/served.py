"""A run that is served as ``unhang view --web`` does, and what asks it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.view.listening import ListenAddress
from unhang.view.web.responses import RunResponses
from unhang.view.web.server import WebServer
from unhang.watch.run_folder import RunFolder

TOKEN = "a-token-of-the-tests"
STARTED_S = 1_795_000_000.0


@contextmanager
def served(folder: Path, lang: str = "en") -> Iterator[WebServer]:
    server = WebServer(ListenAddress("127.0.0.1", 0, TOKEN), RunResponses(folder, Localizer(lang, Redactor())))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def asked(
    server: WebServer, path: str, *, token: str | None = TOKEN, host: str = "", method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    link = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    wanted = {"Host": host or f"127.0.0.1:{server.server_address[1]}", **headers}
    if token is not None:
        wanted["Authorization"] = f"Bearer {token}"
    try:
        link.request(method, path, headers=wanted)
        answer = link.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        link.close()


def told(server: WebServer, path: str) -> Any:
    code, body, _ = asked(server, path)
    assert code == 200, body
    return json.loads(body)


def keep(run: RunFolder, state: dict[str, Any]) -> None:
    """What the watcher would keep now."""
    assert run.records is not None
    unfinished = run.records / "live.new"
    unfinished.write_text(json.dumps(state))
    unfinished.replace(run.records / "live.json")


def series(folder: Path, ranks: int, rows: int, *, late: int = 0) -> Path:
    """Rows of a second each; in the last third rank ``late`` stays in its data and the others wait for it."""
    path = folder / "series" / "ranks.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = [{"schema": "unhang.series/1", "width_s": 1.0}, {"site": 1, "place": ["/home/ml/train.py", 47, "main"]}]
    for at in range(rows):
        stalled = at >= rows * 2 // 3
        lines += [
            {
                "rank": rank,
                "attempt": 0,
                "at_s": STARTED_S + at + 1,
                "step": at,
                "for_s": 1.0,
                "looks": 4,
                "doing": _doing(stalled, rank == late),
            }
            for rank in range(ranks)
        ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _doing(stalled: bool, late: bool) -> list[list[Any]]:
    if stalled:
        return [[1, "data", False, 4]] if late else [[1, "communication", True, 4]]
    return [[1, "compute", False, 3], [1, "data", False, 1]]


def look(folder: Path, rank: int, stack: str, log: str = "") -> None:
    """The papers of a look at ``rank``."""
    (folder / "stacks").mkdir(exist_ok=True)
    (folder / "stacks" / f"rank_{rank}.txt").write_text(stack)
    place = folder / "logs" / "attempt_0" / str(rank)
    place.mkdir(parents=True)
    (place / "stdout.log").write_text(log)
    manifest = {
        "schema": "unhang.bundle/1",
        "processes": [{"rank": rank, "local_rank": rank, "pid": 7}],
        "stalled_since_s": STARTED_S + 20,
        "taken_s": STARTED_S + 24,
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))
    (folder / "verdict.json").write_text(json.dumps({"findings": [{"cause": "uneven-data"}]}))
