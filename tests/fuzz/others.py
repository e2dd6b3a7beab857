"""The other targets: ``compare``, ``view``, ``history``, ``bundles`` that nodes send, the ``wire`` between them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.msgpack import encode

from tests.fuzz import checking, contradicting
from tests.fuzz.folders import KINDS, mutated_archive, packed
from tests.fuzz.mutators import extreme_number, flip_bytes, insert, mutated, odd_json, truncate
from tests.fuzz.outputs import CONTROL, wrong_with, wrong_with_errors
from tests.fuzz.seeds import Seed, case_seeds, write_files
from tests.trace_samples import training
from tests.view.runs import document
from tests.watch.nodes.seen_ranks import ranks_of
from unhang.cli import main as command
from unhang.history.database import open_history
from unhang.history.place import history_place
from unhang.history.run import PastRun, RunEnding, RunFinding, run_from_folder
from unhang.report.layout.terminal import clean_streams
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.view.web.responses import RunResponses
from unhang.watch.nodes.leadership import (
    LeaderMessage,
    LeaderVerdict,
    SampleRequest,
)
from unhang.watch.nodes.node_roster import NodeRoster
from unhang.watch.nodes.rank_digest import NodeDigest, NodeHello, decoded, digest_of
from unhang.watch.nodes.transport import evidence_pack, evidence_parts
from unhang.watch.nodes.transport.key_value_exchange import SignedValues
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportRequest, TransportState
from unhang.watch.pace.pace_over_nodes import find_slowest_rank
from unhang.wire.documents.live_state import LIVE_FILE_NAME as LIVE_FILE
from unhang.wire.documents.live_state import STATES
from unhang.wire.documents.verdict_summary import VerdictSummary

Files = dict[str, bytes]


def told(words: list[str]) -> Iterator[str]:
    """What is wrong with what a command prints, run in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), clean_streams():
        code = command._run(words)
    if code not in (0, 1, 2, 3):
        yield f"exit code {code}"
    form = "markdown" if "markdown" in words else "text"
    yield from wrong_with(form, out.getvalue())
    yield from wrong_with_errors(errors.getvalue())
    if code != 2 and "json" in words:
        try:
            json.loads(out.getvalue())
        except ValueError as error:
            yield f"json: {error}"


# compare


def _series(slow: int) -> bytes:
    lines: list[dict[str, Any]] = [
        {"schema": "unhang.series/1", "width_s": 1.0},
        {"site": 1, "place": ["/j/t.py", 40, "log"]},
    ]
    for at in range(0, 1000, 50):
        for rank in (0, 1):
            doing = [[1, "log", False, slow], [1, "compute", False, 20]]
            lines.append(
                {"rank": rank, "step": at + 50, "steps": 50, "took_s": 0.5 + slow / 100, "looks": 60, "doing": doing}
            )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def compare_input(rng: Random, number: int) -> Files:
    settings = {
        "schema": "unhang.settings/1",
        "world_size": 2,
        "environment": {"NCCL_DEBUG": "INFO"},
        "versions": {"torch": "2.13"},
    }
    run = b'{"schema": "unhang.run/1", "command": ["python", "train.py"]}'
    runs: Files = {}
    for side, slow in (("a", 3), ("b", 30)):
        runs |= {f"{side}/series/ranks.jsonl": _series(slow), f"{side}/run.json": run}
        runs[f"{side}/settings.json"] = json.dumps(settings).encode()
    traces = {f"{side}/rank{rank}_trace.json": training(rank, steps=6, work_ms=ms).text().encode()
              for side, ms in (("a", 2), ("b", 20)) for rank in (0, 1)}  # fmt: skip
    files = runs if number % 2 else traces
    for name in rng.sample(sorted(files), rng.choice((1, 1, 2))):
        files[name] = mutated(rng, files[name], rng.choice((1, 2))).data
    return files


def compare(given: Files, place: Path, number: int) -> Iterator[str]:
    form, lang = (("text", "en"), ("json", "en"), ("markdown", "en"), ("text", "zh"), ("markdown", "zh"))[number % 5]
    yield from told(["compare", str(place / "input/a"), str(place / "input/b"), "--format", form, "--lang", lang])


# view


def view_input(rng: Random, number: int) -> Files:
    state = document(rng.choice((2, 5)), stalled=bool(number % 2))
    state["ended"] = number % 5 != 0
    if number % 3 == 0:
        state["ranks"]["state"] = [STATES.index("dead")] * len(state["ranks"]["rank"])
    files = {
        "run.json": json.dumps({"schema": "unhang.run/1", "command": ["torchrun", "t.py"], "records": ""}).encode(),
        LIVE_FILE: json.dumps(state).encode(),
        "series/ranks.jsonl": _series(5),
        "machine/series.jsonl": b'{"schema":"unhang.machine/1","node":"n1","t_s":1.0,"cpu":{"busy":2}}\n' * 3,
        "verdict.json": json.dumps({"schema": "unhang.verdict/1", "findings": [{"cause": "gpu-oom"}]}).encode(),
        "bundle.json": b'{"schema":"unhang.bundle/1","world_size":2,"taken_s":2.0}',
        "crash/rank_0.except": b'{"time_s": 1.5, "thread": "MainThread", "type": "ValueError", "message": "",'
        b' "file": "t.py", "line": 1, "function": "f", "frames": []}\n',
    }
    name = LIVE_FILE if rng.random() < 0.6 else rng.choice(sorted(files))
    files[name] = mutated(rng, files[name], rng.choice((1, 2))).data
    return files


def view(given: Files, place: Path, number: int) -> Iterator[str]:
    folder = place / "input"
    words = ["--perfetto", str(place / "out.json")] if number % 4 == 0 else ["--once"]
    real, time.sleep = time.sleep, lambda _: None  # a live run is looked at twice
    try:
        yield from told(["view", str(folder), "--lang", ("en", "zh")[number % 2], *words])
    finally:
        time.sleep = real
    if number % 4 == 1:
        from unhang.errors import UnhangError

        answers = RunResponses(folder, Localizer("en", Redactor()))
        for path in ("/", "/state.json", "/live.json", "/timeline.json", "/machine.json", "/rank.json", "/report"):
            with contextlib.suppress(UnhangError):
                answers.answer(path, {"rank": "0", "from": "0", "node": "n1"})


# history


def history_input(rng: Random, number: int) -> Files:
    verdict = {
        "schema": "unhang.verdict/1", "status": "hang", "findings": [{
            "cause": "gpu-hardware", "certainty": "likely", "ranks": [3], "nodes": ["h7"], "summary": "it failed",
            "where": {"file": "t.py", "line": 5, "function": "f"}, "evidence": [{"source": "a", "text": "x"}]}],
    }  # fmt: skip
    files = {
        "run.json": b'{"schema": "unhang.run/1", "command": ["torchrun", "t.py"], "cwd": "/j", "started_s": 5.0}',
        "verdict.json": json.dumps(verdict).encode(),
        ".unhang/past/1/verdict.json": json.dumps(verdict).encode(),
        ".unhang/summary-1.json": b'{"sentence": "it failed", "sentence_parts": {"template": "it failed"}}',
        "settings.json": b'{"schema": "unhang.settings/1"}',
    }
    for name in rng.sample(sorted(files), rng.choice((1, 2))):
        files[name] = mutated(rng, files[name], rng.choice((1, 2))).data
    files["rows"] = rng.randbytes(8)
    return files


def history(given: Files, place_: Path, number: int) -> Iterator[str]:
    environment, os.environ["XDG_STATE_HOME"] = os.environ.get("XDG_STATE_HOME"), str(place_ / "state")
    try:
        where = history_place(os.environ)
        kept = run_from_folder(RunEnding(str(place_ / "input"), True, 9.0, ("h7",), 8, 100, 0.5))
        with open_history(where, to_write=True) as known:
            known.add(kept)
            known.add(
                PastRun(
                    "/r",
                    "torchrun t.py",
                    "/j",
                    1.0,
                    9.0,
                    "good",
                    ("h7",),
                    8,
                    9,
                    verdicts=(RunFinding("gpu-oom", "likely", "hang", (3,), ("h7",), (), "", "x"),),
                )
            )
        if number % 3 == 0:
            _odd_rows(Random(given["rows"]), where.file)
        yield from told([*["history", "--json"][: 1 + number % 2], "--lang", ("en", "zh")[number % 2]])
        yield from told(["history", "1"])
    finally:
        if environment is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = environment


def _odd_rows(rng: Random, path: Path) -> None:
    """The file of the database is somebody's file, too."""
    if rng.random() < 0.3:
        path.write_bytes(rng.choice((truncate, flip_bytes))(rng, path.read_bytes()))
        return
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        column = rng.choice(
            ("hosts", "started_s", "ended_s", "world_size", "outcome", "steps", "step_s", "settings", "command")
        )
        value = rng.choice((None, "", "x", -1, 10**18, 1e308, "[", "[1, {}]", "\x1b[2J", b"\xff\xfe", '{"a":'))
        with contextlib.suppress(sqlite3.IntegrityError):
            connection.execute(f"UPDATE runs SET {column} = ?", (value,))
        column = rng.choice(("ranks", "nodes", "cards", "parts", "sentence", "cause", "place", "certainty"))
        with contextlib.suppress(sqlite3.IntegrityError):
            connection.execute(f"UPDATE verdicts SET {column} = ?", (value,))


# bundles that another node sends


def bundle_input(rng: Random, number: int) -> Files:
    bundles = [seed for seed in case_seeds() if "bundle.json" in seed.files]
    files = dict(bundles[number % len(bundles)].files)
    name = rng.choice(sorted(files))
    files[name] = mutated(rng, files[name], 1).data
    if rng.random() < 0.2:
        files[rng.choice(("../x", "/etc/x", "logs/../../x", "stacks/\x1b[2J", "logs/" + "a/" * 50))] = b"x"
    return {"node.zip": mutated_archive(rng, packed(files, rng.choice(KINDS[:1])))}


def bundles(given: Files, place: Path, number: int) -> Iterator[str]:
    target = place / "unpacked"
    evidence_pack.unpack_evidence(place / "input" / "node.zip", target, ahead_s=100.0 * (number % 2))
    outside = [
        path
        for path in place.rglob("*")
        if path.is_file() and not path.is_relative_to(target) and "input" not in path.parts
    ]
    yield from (f"wrote outside: {path}" for path in outside)
    if any(target.rglob("*")):
        yield from told(["diagnose", str(target), "--format", "json"])


# the wire between nodes


def wire_seeds() -> dict[str, bytes]:
    now = time.monotonic_ns()
    hello = NodeHello("h1", "h1", "192.0.2.1", [2, 3], now, 0)
    summary = VerdictSummary(
        1, "stall", "hang", "gpu-oom", "likely", (1,), "", "it failed", None, None, False, True, False, False
    )
    whole = digest_of(now, ranks_of(2, waits_s=3.0), deaths=1, over=0, whole=True)
    return {
        "hello": encode(hello),
        "digest": encode(whole),
        "word": encode(LeaderMessage(now, True, SampleRequest(3, now, True, True, [1], 2), 4)),
        "said": encode(LeaderVerdict(1, "h1", "/x", summary, b"{}")),
        "news": encode(TransportState(now, True, 0, seat=0, hellos=[ReceivedValue(1, 1, 1, encode(hello))])),
        "errand": encode(TransportRequest(encode(hello), encode(whole))),
        "parts": encode(evidence_parts.EvidenceAnnouncement(1, 1, 3, b"x" * 32)),
    }


def wire_input(rng: Random, number: int) -> Files:
    seeds = wire_seeds()
    name = sorted(seeds)[number % len(seeds)]
    data = seeds[name]
    if rng.random() < 0.6:  # a message of the right form with other values in it
        with contextlib.suppress(ValueError, TypeError, OverflowError, msgspec.MsgspecError):
            value = msgspec.to_builtins(msgspec.msgpack.decode(data), builtin_types=())
            changed = odd_json(rng, json.dumps(value, default=lambda raw: raw.decode("latin-1")).encode())
            return {name: encode(json.loads(changed))}
    for _ in range(rng.choice((1, 2))):
        data = rng.choice((flip_bytes, truncate, insert, extreme_number))(rng, data)
    return {name: data}


class _Store:
    """Where all nodes meet; somebody has put a value there that is not sealed."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    def put(self, key: str, value: bytes) -> None: ...

    def get(self, keys: list[str]) -> dict[str, bytes]:
        return dict.fromkeys(keys, self.value)


def wire(given: Files, place: Path, number: int) -> Iterator[str]:
    (name, data), now = next(iter(given.items())), time.monotonic_ns()
    if SignedValues(_Store(data), "a" * 16, "k").get(["d/1"]):  # type: ignore[arg-type]
        yield "wire: taken without a seal"
    hello = wire_seeds()["hello"]
    heard = [ReceivedValue(1, 1, 1, data if name == "hello" else hello)], [ReceivedValue(1, now - 9, now, data)]
    roster = NodeRoster()
    for _ in range(2):
        roster.take(TransportState(now, True, 0, seat=0, hellos=heard[0], digests=heard[1] if name == "digest" else []))
    states = roster.states(now)
    digest = decoded(data, NodeDigest)
    if digest is not None:
        find_slowest_rank(digest.pace, {1: digest.pace})
    said = decoded(data, LeaderVerdict)
    if said is not None:
        from unhang.report.language import translate
        from unhang.watch.nodes.node_announcements import leader_verdict_line

        for lang in ("en", "zh"):
            line = translate(leader_verdict_line(said, lang), lang)
            if CONTROL.search(line):
                yield f"wire: control character in {line[:200]!r}"
    for other in (LeaderMessage, NodeHello, evidence_parts.EvidenceAnnouncement):
        decoded(data, other)
    len(states)
    from unhang.watch.nodes.transport.mailbox import Mailbox

    (place / "news").write_bytes(data)
    for kind in (TransportState, TransportRequest):
        Mailbox(place / "news", kind).refresh()


Make = Callable[[Random, int], Files]
Check = Callable[[Files, Path, int], Iterator[str]]
OTHERS: dict[str, tuple[Make, Check]] = {
    "jobs": (contradicting.job_input, contradicting.jobs),
    "check": (checking.check_input, checking.check),
    "compare": (compare_input, compare),
    "view": (view_input, view),
    "history": (history_input, history),
    "bundles": (bundle_input, bundles),
    "wire": (wire_input, wire),
}


def check(target: str, files: Files, place: Path, number: int) -> Iterator[str]:
    """What is wrong with how ``target`` takes ``files``."""
    write_files(files, place / "input")
    try:
        yield from OTHERS[target][1](files, place, number)
    except Exception as error:  # noqa: BLE001 - the property: nothing that comes from outside raises
        from unhang.errors import describe_failure

        yield f"failed: {target}: {describe_failure(error)}"


def seed_of(target: str, files: Files) -> Seed:
    """For the corpus."""
    return Seed(target, files)
