"""The server of the page only reads, answers who has the token by its own name, and lets no secret out."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.view.runs import document, run_folder
from tests.view.served import TOKEN, asked, keep, look, series, served, told
from tests.waiting import wait_for
from unhang.cli.main import main
from unhang.errors import UnhangError, UsageError
from unhang.view import limited_server
from unhang.view.listening import ListenAddress, listening_with_token
from unhang.view.remote import NO_ANSWER, RemoteRun
from unhang.view.web import server as web_server
from unhang.wire.record import RecordWriter, find_record, record_path
from unhang.wire.record_views import RankIdentity, RecordView

PATHS = (
    "/",
    "/state.json",
    "/live.json",
    "/timeline.json",
    "/machine.json",
    "/rank.json?rank=0",
    "/report",
    "/history",
)


@pytest.mark.parametrize("path", [*PATHS, "/nothing"])
def test_without_the_token_nothing_is_answered(path: str, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    with served(run.path) as server:
        assert asked(server, path, token=None)[0] == 403
        assert asked(server, path, token=TOKEN + "x")[0] == 403
        assert asked(server, path + ("&" if "?" in path else "?") + "token=wrong", token=None)[0] == 403


def test_the_token_is_taken_from_the_address_or_a_header(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    with served(run.path) as server:
        assert asked(server, f"/?token={TOKEN}", token=None)[0] == 200
        assert asked(server, "/state.json")[0] == 200
        assert f"token={TOKEN}" in server.address


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "[::", "x"]
)
def test_a_foreign_name_is_refused_even_with_the_token(host: str, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    with served(run.path) as server:
        assert asked(server, "/state.json", host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:4", "[::1]:9"])
def test_our_own_names_are_known_behind_a_tunnel_too(host: str) -> None:
    assert ListenAddress("127.0.0.1", 1, TOKEN).is_named(host)


def test_beyond_loopback_addresses_and_the_own_name_are_known() -> None:
    listening = ListenAddress("0.0.0.0", 1, TOKEN)
    assert listening.is_named("10.1.2.3:80")
    assert listening.is_named(socket.gethostname())
    assert not listening.is_named("evil.example")
    assert not listening.is_named("")


def test_a_token_is_always_there() -> None:
    assert len(listening_with_token("127.0.0.1:0", {}).token) >= 24
    assert listening_with_token("0", {"UNHANG_TOKEN": TOKEN}).token == TOKEN
    with pytest.raises(UsageError):
        listening_with_token("0", {"UNHANG_TOKEN": "short"})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_it_only_answers_questions(method: str, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    with served(run.path) as server:
        assert asked(server, "/state.json", method=method)[0] == 501


@pytest.mark.parametrize("path", ["/../run.json", "/run.json", "/%2e%2e/run.json", "/stacks/rank_0.txt"])
def test_no_file_is_reached_by_its_name(path: str, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    with served(run.path) as server:
        code, body, _ = asked(server, path)
    assert code == 404
    assert b"torchrun" not in body


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_says_what_a_browser_may_do_with_it(path: str, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    (run.path / "report.html").write_text("<!doctype html><script>alert(1)</script>")
    with served(run.path) as server:
        code, _, headers = asked(server, path)
    assert code == 200
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert ("sandbox allow-scripts" in policy) == (path == "/report")


def test_secrets_of_the_command_stay_on_the_machine(tmp_path: Path) -> None:
    state = document()
    secret = "hf_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1z"
    state["run"]["command"] = ["torchrun", "train.py", "--hub-token", secret]
    state["verdict"]["parts"]["values"]["ranks"] = {"template": "progressing", "values": {"token": secret}}
    run = run_folder(tmp_path, state)
    look(run.path, 0, "main (train.py:3)", f"login with {secret}\n")
    with served(run.path) as server:
        for path in ("/state.json", "/live.json", "/rank.json?rank=0"):
            body = asked(server, path)[1].decode()
            assert secret not in body
            assert "rank" in body


def test_a_state_that_did_not_change_is_not_sent_again(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document() | {"ended": True})
    with served(run.path) as server:
        _, body, headers = asked(server, "/live.json")
        code, again, _ = asked(server, "/live.json", **{"If-None-Match": headers["etag"]})
    assert body
    assert (code, again) == (304, b"")


def test_more_clients_than_places_are_sent_away_and_others_are_served_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_server, "MAX_AT_ONCE", 3)
    monkeypatch.setattr(web_server._RequestHandler, "timeout", 60.0)
    run = run_folder(tmp_path, document())
    with served(run.path) as server:
        idle = [socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) for _ in range(3)]
        wait_for(lambda: not _answers(server))
        for link in idle:
            link.close()
        wait_for(lambda: _answers(server))


def _answers(server: web_server.WebServer) -> bool:
    try:
        return asked(server, "/state.json")[0] == 200
    except OSError:
        return False


def test_a_rank_has_its_stack_of_the_look_and_its_last_lines(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    look(run.path, 3, "Thread 7\n    main (train.py:51)\n", "step 1\nstep 2 \x1b[31mred\x1b[0m\n")
    with served(run.path) as server:
        found = told(server, "/rank.json?rank=3")
        other = told(server, "/rank.json?rank=2")
    assert "main (train.py:51)" in found["look"]
    assert found["logs"] == [{"name": "logs/attempt_0/3/stdout.log", "lines": ["step 1", "step 2 red"]}]
    assert (other["look"], other["logs"]) == ("", [])


def test_a_live_rank_tells_its_stack_from_its_record(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    assert run.records is not None
    for attempt, line in ((0, 11), (1, 51)):
        identity = RankIdentity(pid=os.getpid() + attempt, rank=3, world_size=8, attempt=attempt)
        record = RecordWriter.create(record_path(run.records, attempt, identity.pid), identity)
        record.now = RecordView(identity=identity, stack=f"/home/ml/train.py:{line}:main", threads=4)
        record.now.user.file = "/home/ml/train.py"
        record.publish()
    (run.records / "9.9.rec").write_bytes(b"torn")
    with served(run.path) as server:
        found = told(server, "/rank.json?rank=3")
    assert found["now"] == [{"file": "/home/ml/train.py", "line": "51", "function": "main", "own": True}]
    assert find_record(run.records, 4) is None


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    (tmp_path / "secret").write_text("not yours")
    look(run.path, 3, "")
    stack = run.path / "stacks" / "rank_3.txt"
    stack.unlink()
    stack.symlink_to(tmp_path / "secret")
    with served(run.path) as server:
        assert told(server, "/rank.json?rank=3")["look"] == ""


def test_rows_come_once_and_all_again_when_the_file_is_replaced(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(2))
    path = series(run.path, 2, 30)
    with served(run.path) as server:
        first = told(server, "/timeline.json")
        asked_for = f"/timeline.json?generation={first['generation']}&rows=60&sites=1"
        with path.open("a") as file:
            file.write('{"rank":0,"at_s":1795000031,"for_s":1,"looks":1,"doing":[[1,"save",false,1]]}\n{"rank":1,')
        more = told(server, asked_for)
        series(tmp_path, 2, 5).replace(path)
        anew = told(server, asked_for)
    assert (len(first["rows"]), len(first["sites"])) == (60, 1)
    assert [row[5] for row in more["rows"]] == [[5, 100]]
    assert more["sites"] == []
    assert (anew["first"], len(anew["rows"])) == (0, 10)
    assert anew["generation"] != first["generation"]


def test_a_hostile_series_costs_only_its_own_lines(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(2))
    path = series(run.path, 2, 3)
    with path.open("ab") as file:
        file.write(
            b'{"rank":-5,"at_s":1}\n{"rank":1,"at_s":1e300}\n\xff\xfe\n[]\n{"site":9,"place":[1,2]}\n'
            + b"[" * 50_000
            + b"\n"
        )
    with served(run.path) as server:
        assert len(told(server, "/timeline.json")["rows"]) == 6


def test_machine_lanes_are_named_and_in_the_order_one_asks(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(2))
    (run.path / "machine").mkdir()
    row = {"node": "h1", "cards": [{"index": 0, "util": 99, "throttle": ["hot"]}], "net": {"eth0": {"rx_bps": 5.0}}}
    lines = [
        {"schema": "unhang.machine/1", "node": "h1"},
        {"t_s": 10.0, **row},
        {"t_s": "x"},
        ["no"],
        {"t_s": 20.0, **row},
    ]
    (run.path / "machine" / "series.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run.path / "machine" / "series.1.jsonl").write_text(json.dumps({"t_s": 1.0, **row}) + "\n")
    with served(run.path) as server:
        found = told(server, "/machine.json?node=7")
    assert found["nodes"] == ["h1"]
    assert [lane[0] for lane in found["lanes"]] == [
        "GPU 0: busy",
        "GPU 0: reasons it is slowed down",
        "network eth0: received",
    ]
    assert found["lanes"][0][1:] == ["%", [1.0, 10.0, 20.0], [99.0, 99.0, 99.0]]


def test_the_terminal_shows_a_run_that_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = document(8)
    state["verdict"]["sentence"] = "red \x1b[31m and \x1b]0;title\x07 gone"
    run = run_folder(tmp_path, state | {"ended": True})
    with served(run.path) as server:
        with pytest.raises(SystemExit) as left:
            main(["view", server.address, "--once"])
        shown = capsys.readouterr().out
        with pytest.raises(UnhangError):
            RemoteRun(server.address + "x").read(Path())
        remote = RemoteRun(server.address)
        assert remote.read(Path()).state is not None
    assert left.value.code == 0
    assert "uneven-data" in shown
    assert "Red and gone" in shown
    last = remote.read(Path())
    assert (last.live, last.because) == (False, NO_ANSWER)
    assert last.state is not None
    assert last.folder == run.path


def test_a_server_that_never_comes_to_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhang.view.remote.WHOLE_LIMIT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        remote = RemoteRun(f"HTTP://127.0.0.1:{listening.getsockname()[1]}/?token={TOKEN}")
        with pytest.raises(UnhangError):
            remote.read(Path())


def drip(listening: socket.socket) -> None:
    """A byte now and then, for much longer than the test may take, until the other side hangs up."""
    line, _ = listening.accept()
    with line, suppress(OSError):
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(10_000):
            line.sendall(b" ")
            time.sleep(0.1)


def test_series_that_are_pipes_or_go_while_they_are_read_are_left_out(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(2))
    (run.path / "machine").mkdir()
    (run.path / "series").mkdir()
    os.mkfifo(run.path / "series" / "ranks.jsonl")
    os.mkfifo(run.path / "report.html")
    (run.path / "machine" / "series.1.jsonl").symlink_to(tmp_path / "gone")
    (run.path / "machine" / "series.jsonl").write_text('{"t_s": 1.0, "node": "h1", "job_cpus": 2.0}\n')
    with served(run.path) as server:
        assert told(server, "/timeline.json")["rows"] == []
        assert told(server, "/machine.json")["lanes"] == [["CPUs used by the job", "", [1.0], [2.0]]]
        assert asked(server, "/report")[0] == 404


def test_elsewhere_it_is_said_in_the_language_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder(tmp_path, document(8) | {"ended": True})
    with served(run.path) as server, pytest.raises(SystemExit):
        main(["view", server.address, "--once", "--lang", "zh"])

    assert "rank 0 的 batch 先用完" in capsys.readouterr().out


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "http://127.0.0.1:99999/?token=x", "http:///?token=x"])
def test_an_address_without_host_or_token_is_said(address: str) -> None:
    with pytest.raises(UsageError):
        RemoteRun(address)


def test_view_web_prints_its_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    command = [
        sys.executable,
        "-c",
        "from unhang.cli.main import main; main()",
        "view",
        str(run.path),
        "--web",
        "--no-open",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            address = next(word for word in process.stdout.readline().split() if word.startswith("http://127.0.0.1:"))
            assert RemoteRun(address).read(Path()).live
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
        assert process.stderr.read() == ""


def test_the_current_folder_is_served_and_another_server_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run_folder(tmp_path, document(2)).path)
    for place, said in ((".", "is neither a port"), ("http://127.0.0.1:1/?token=a", "not another server")):
        with pytest.raises(SystemExit) as left:
            main(["view", place, "--web", "--listen", "x:y"])
        assert left.value.code == 2
        assert said in capsys.readouterr().err


def test_a_browser_is_opened_only_where_somebody_sees_it() -> None:
    assert not web_server.has_screen({"SSH_CONNECTION": "1"})
    assert sys.platform == "darwin" or web_server.has_screen({"DISPLAY": ":0"})


def test_ten_thousand_ranks_are_answered_in_a_megabyte(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(10_000))
    with served(run.path) as server:
        _, body, headers = asked(server, "/state.json", **{"Accept-Encoding": "gzip"})
        _, plain, _ = asked(server, "/state.json")
        keep(run, document(10_000, stalled=False))
        wait_for(lambda: told(server, "/state.json")["condition"]["tone"] == "waiting")
    assert headers["content-encoding"] == "gzip"
    assert len(body) < 100_000
    assert len(plain) < 1_000_000
