"""The scripts for --on-hang-exec: short, without paths of homes, in the form each service takes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "notify"
VERDICT = {
    "status": "hang",
    "killed_in_s": 431.7,
    "findings": [
        {
            "cause": "uneven-data",
            "certainty": "certain",
            "ranks": [0],
            "summary": "Rank 0 of /home/mlee/x.py ran out of batches & left <the> loop",
            "where": {"file": "/home/mlee/secret-project/train.py", "line": 51},
            "remedies": [{"title": "Seed the split: random.shuffle at /home/mlee/secret-project/train.py:30"}],
        }
    ],
}


@pytest.fixture
def inbox() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    got: list[tuple[str, Any]] = []

    class Service(http.server.BaseHTTPRequestHandler):
        answer = b'{"code": 0, "errcode": 0}'

        def do_POST(self) -> None:
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            body = b'{"errcode": 310000, "errmsg": "keywords not in content"}' if "refuse" in self.path else self.answer
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook?key=1", got
    server.shutdown()
    server.server_close()


def notify(script: str, *words: str, verdict: dict[str, Any] = VERDICT) -> int:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *words], input=json.dumps(verdict), text=True, timeout=30, check=False
    ).returncode


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("webhook.py", lambda body: body["text"]),
        ("slack.py", lambda body: body["text"]),
        ("feishu.py", lambda body: body["content"]["text"]),
        ("dingtalk.py", lambda body: body["text"]["content"]),
    ],
)
def test_a_message_is_short_and_tells_what_to_do(script: str, text: Any, inbox: tuple[str, list[Any]]) -> None:
    url, got = inbox

    assert notify(script, url) == 0

    message = text(got[0][1])
    assert "uneven-data (certain), rank 0 · train.py:51" in message
    assert "Seed the split" in message
    assert "times out in 432 s" in message
    assert "mlee" not in message
    assert "secret-project" not in message
    assert len(message.splitlines()) <= 5
    assert len(message) < 1_300


def test_slack_gets_no_markup_of_ours(inbox: tuple[str, list[Any]]) -> None:
    notify("slack.py", inbox[0])

    assert "&amp; left &lt;the&gt;" in inbox[1][0][1]["text"]


def test_signatures(inbox: tuple[str, list[Any]]) -> None:
    url, got = inbox
    notify("feishu.py", url, "s3cret")
    notify("dingtalk.py", url, "s3cret")

    feishu = got[0][1]
    signed = hmac.new(f"{feishu['timestamp']}\ns3cret".encode(), b"", hashlib.sha256).digest()
    assert feishu["sign"] == base64.b64encode(signed).decode()
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(got[1][0]).query)
    signed = hmac.new(b"s3cret", f"{asked['timestamp'][0]}\ns3cret".encode(), hashlib.sha256).digest()
    assert asked["sign"] == [base64.b64encode(signed).decode()]


def test_of_a_chinese_run_the_message_is_chinese(inbox: tuple[str, list[Any]]) -> None:
    findings = [
        VERDICT["findings"][0] | {"summary": "rank 0 的 batch 先用完", "remedies": [{"title": "给划分一个种子"}]}
    ]
    assert notify("feishu.py", inbox[0], verdict=VERDICT | {"lang": "zh", "findings": findings}) == 0

    assert inbox[1][0][1]["content"]["text"].splitlines() == [
        "卡住：rank 0 的 batch 先用完",
        "uneven-data（确定），rank 0 · train.py:51",
        "这样改：给划分一个种子",
        "等待将在 432 秒后超时",
    ]


def test_a_long_sentence_is_cut_and_stays_a_line(inbox: tuple[str, list[Any]]) -> None:
    findings = [VERDICT["findings"][0] | {"summary": "first\nsecond " * 500}]
    assert notify("webhook.py", inbox[0], verdict=VERDICT | {"findings": findings}) == 0

    lines = inbox[1][0][1]["text"].splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) == 300


def posted(url: str, limit_s: int) -> subprocess.CompletedProcess[str]:
    program = f"import message, sys; message.WHOLE_LIMIT_S = {limit_s}; sys.exit(message.post(sys.argv[1], {{}}))"
    return subprocess.run(
        [sys.executable, "-c", program, url], cwd=SCRIPTS, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_service_that_never_ends_its_answer_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def trickle() -> None:
            link, _ = server.accept()
            with link, suppress(OSError):
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
                while not over.wait(0.1):
                    link.sendall(b"x")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        done = posted(f"http://127.0.0.1:{server.getsockname()[1]}/", 1)
        over.set()
        thread.join(10)

    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/hook/s3cret", "htp://x/s3cret", "s3cret"])
def test_the_address_is_a_secret_also_where_nothing_answers(address: str) -> None:
    done = posted(address, 30)

    assert done.returncode == 1
    assert done.stderr.startswith("not sent")
    assert "s3cret" not in done.stdout + done.stderr


def test_what_the_service_refuses_is_a_failure(inbox: tuple[str, list[Any]]) -> None:
    assert notify("dingtalk.py", inbox[0].replace("hook", "refuse")) == 1


def test_a_verdict_without_a_finding(inbox: tuple[str, list[Any]]) -> None:
    assert notify("webhook.py", inbox[0], verdict={"status": "unknown", "findings": [], "killed_in_s": None}) == 0
    assert inbox[1][0][1]["text"] == "UNKNOWN: unknown\nunknown"
