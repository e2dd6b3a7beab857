"""Evidence on a web server, with ranges and without: Python's own server, which gives none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import leavings
from unhang.errors import EvidenceError
from unhang.evidence.inputs import read_evidence
from unhang.evidence.objects.stores import store_of
from unhang_lab.dump_writer import StalledJob

pytest.importorskip("aiohttp", reason="aiohttp is not installed (PyPI: aiohttp)")
pytest.importorskip("fsspec", reason="fsspec is not installed (PyPI: fsspec)")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_words: object) -> None:
        pass

    def do_GET(self) -> None:
        if "forbidden" in self.path:
            self.send_error(403)
        elif "broken" in self.path:
            self.send_error(503)
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        self.do_GET() if "forbidden" in self.path or "broken" in self.path else super().do_HEAD()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    leavings.write_bundle(tmp_path / "run")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    store_of.cache_clear()


def test_a_folder_of_links_and_what_is_below_it(address: str) -> None:
    evidence = read_evidence([f"{address}/run/"])

    assert sorted(log.source.path for log in evidence.logs) == [f"{address}/run/logs/rank{n}.log" for n in range(4)]
    assert sorted(one.rank or 0 for one in evidence.recorder_dumps) == [0, 1, 2, 3]
    assert evidence.unread == []


def test_a_signed_address_is_read_and_its_signature_not_shown(address: str) -> None:
    evidence = read_evidence([f"{address}/run/logs/rank1.log?X-Amz-Signature=abcdef"])

    assert [log.source.path for log in evidence.logs] == [f"{address}/run/logs/rank1.log"]
    assert evidence.inputs == [f"{address}/run/logs/rank1.log"]


def test_without_ranges_a_long_dump_and_a_long_log_are_read_from_the_front(address: str, tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    for rank, data in StalledJob(ranks=8, entries=2_000, frames=10, laggard=1).dumps(2):
        (tmp_path / "long" / f"nccl_trace_rank_{rank}").write_bytes(data)
    (tmp_path / "long" / "rank3.log").write_text("INFO step 1 loss 2.1\n" * 500_000 + leavings.watchdog_log(3))

    there, here = read_evidence([f"{address}/long/"]), read_evidence([str(tmp_path / "long")])

    assert there.unread == []
    assert [one.status for one in there.recorder_dumps] == [one.status for one in here.recorder_dumps]
    assert [one.entries.record_id.tolist() for one in there.recorder_dumps] == [
        one.entries.record_id.tolist() for one in here.recorder_dumps
    ]
    assert [(log.lines, len(log.events)) for log in there.logs] == [(log.lines, len(log.events)) for log in here.logs]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("forbidden.log", r"may not be read with these credentials \(access denied\)"),
        ("broken.log", "could not be read: the server answered 503"),
    ],
)
def test_what_the_server_refuses(address: str, path: str, reason: str) -> None:
    with pytest.raises(EvidenceError, match=reason):
        read_evidence([f"{address}/{path}"])
