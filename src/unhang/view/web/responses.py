"""What the server answers, by path. Everything is read here, kept for a moment, and the same for every client."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unhang.report.localizer import Localizer
from unhang.report.machine_quantities import lane_title
from unhang.view.episodes import StallSpan, stall_spans
from unhang.view.last_moment import read_with_its_end
from unhang.view.machine_series import Lane, MachineSeries
from unhang.view.reading import RunReading, SharedReading
from unhang.view.regular_files import read_limited
from unhang.view.series_reading import RankRows
from unhang.view.web.page import page, page_policy, report_policy, style_policy
from unhang.view.web.rank_details import rank_details
from unhang.view.web.shared_state import page_state, secret_cleaner, share_reading

CACHE_S, HISTORY_CACHE_S = 0.4, 10.0
ROWS_AT_ONCE = 50_000
MAX_REPORT = 64 << 20
MIN_GZIP_BYTES = 1_000
JSON = "application/json"
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. ``packed``: the body with gzip, empty where that is not worth it."""

    body: bytes
    kind: str = JSON
    code: int = 200
    policy: str = "default-src 'none'; frame-ancestors 'none'"
    packed: bytes = b""

    @property
    def tag(self) -> str:
        """Equal for equal bodies."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:24]}"'


@dataclass(slots=True)
class _CachedResponse:
    until_s: float = 0.0
    answer: Response | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class RunResponses:
    """The answers for one run. ``localizer`` decides the language; ``read`` says how the run is."""

    def __init__(
        self, folder: Path, localizer: Localizer, read: Callable[[Path], RunReading] = read_with_its_end
    ) -> None:
        self._folder, self._localizer, self._read = folder, localizer, read
        self._rows, self._machine = RankRows(folder), MachineSeries(folder)
        self._clean = secret_cleaner(localizer)
        self._kept = {path: _CachedResponse() for path in ("/state.json", "/live.json", "/history")}
        self._series = threading.Lock()
        self._page = Response(page(localizer).encode(), HTML, policy=page_policy())
        self._by_path: Mapping[str, Callable[[Mapping[str, str]], Response]] = {
            "/": lambda _: self._page,
            "/state.json": lambda _: self._once("/state.json", lambda: _json(self._state())),
            "/live.json": lambda _: self._once("/live.json", lambda: _json(self._live())),
            "/history": lambda _: self._once("/history", self._history, HISTORY_CACHE_S),
            "/timeline.json": self._timeline,
            "/machine.json": self._machines,
            "/rank.json": self._rank,
            "/report": lambda _: self._report(),
        }

    def answer(self, path: str, asked: Mapping[str, str]) -> Response:
        """The answer to ``GET path?asked``."""
        found = self._by_path.get(path)
        return found(asked) if found is not None else refusal(404, "not found")

    def _once(self, path: str, make: Callable[[], Response], keep_s: float = CACHE_S) -> Response:
        """However many ask: it is made again when it is older than ``keep_s``."""
        kept = self._kept[path]
        with kept.lock:
            if kept.answer is None or time.monotonic() > kept.until_s:
                kept.answer = make()
                kept.until_s = time.monotonic() + keep_s
            return kept.answer

    def _state(self) -> dict[str, Any]:
        reading = self._read(self._folder)
        told = share_reading(reading, self._clean)
        return page_state(told, reading, self._localizer, has_report=(self._folder / "report.html").is_file())

    def _live(self) -> SharedReading:
        return share_reading(self._read(self._folder), self._clean)

    def _timeline(self, asked: Mapping[str, str]) -> Response:
        """Rows from ``rows`` on if ``generation`` is still that of the file, else all of them from the first."""
        with self._series:
            self._rows.read()
            rows, sites, generation = self._rows.rows, self._rows.sites, self._rows.generation
            same = _number(asked, "generation") == generation
            first, first_site = (_number(asked, "rows"), _number(asked, "sites")) if same else (0, 0)
            document = {
                "generation": generation,
                "first": first,
                "rows": rows[first : first + ROWS_AT_ONCE],
                "more": len(rows) > first + ROWS_AT_ONCE,
                "first_site": first_site,
                "sites": [self._clean(site) for site in sites[first_site:]],
                "episodes": [self._shown(episode) for episode in stall_spans(self._folder)],
            }
        return _json(document)

    def _shown(self, episode: StallSpan) -> StallSpan:
        return msgspec.structs.replace(episode, cause=self._clean(episode.cause))

    def _machines(self, asked: Mapping[str, str]) -> Response:
        """The lanes of node ``node`` (by its number among the nodes that have any)."""
        with self._series:
            self._machine.read()
            names = list(self._machine.nodes)
            at = min(_number(asked, "node"), max(0, len(names) - 1))
            lanes = self._machine.lanes(names[at]) if names else {}
            shown = [self._lane(name, lane) for name, lane in lanes.items()]
        return _json({"nodes": [self._clean(name) for name in names], "node": at, "lanes": shown})

    def _lane(self, name: str, lane: Lane) -> list[Any]:
        title, unit, factor = lane_title(name)
        return [self._clean(self._localizer.say(title)), unit, lane.at_s, [value * factor for value in lane.values]]

    def _rank(self, asked: Mapping[str, str]) -> Response:
        return _json(rank_details(self._read(self._folder), _number(asked, "rank"), self._localizer))

    def _history(self) -> Response:
        """Earlier runs; the server or file of the history has limits of its own."""
        from unhang.view.web.history_page import history_page  # SQLAlchemy: for who asks

        return Response(history_page(self._localizer, os.environ).encode(), HTML, policy=style_policy())

    def _report(self) -> Response:
        """Somebody's file: its policy lets only our own script run, and that apart from this page."""
        try:
            body = read_limited(self._folder / "report.html", MAX_REPORT)
        except OSError as error:
            return refusal(404, "the report is too large" if error.errno == errno.EFBIG else "no report yet")
        return Response(body, HTML, policy=report_policy(), packed=gzip.compress(body, 1))


def refusal(code: int, text: str) -> Response:
    """A short answer that says no."""
    return Response(text.encode() + b"\n", "text/plain; charset=utf-8", code)


def _json(document: Any) -> Response:
    body = msgspec.json.encode(document)
    return Response(body, packed=gzip.compress(body, 1) if len(body) > MIN_GZIP_BYTES else b"")


def _number(asked: Mapping[str, str], name: str) -> int:
    text = asked.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
