"""The bytes of every format, as they were when its version was named: what is written today is the same, and read back.

A format changes only with its version. Keys that are added come with a default, so that the files before them are read
as before (``tests/frozen``). ``python tests/wire/test_golden.py`` writes the files of formats that are new.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from unhang.evidence.checkpoints.checkpoint import LAYOUTS, Checkpoint
from unhang.evidence.checkpoints.checkpoint_listing import checkpoint_listing, read_checkpoint_listing
from unhang.findings import Source
from unhang.wire import layout
from unhang.wire.control import Control
from unhang.wire.documents import (
    bundle,
    call_comparison,
    earlier_verdicts,
    live_state,
    other_nodes,
    pace,
    rank_series,
    run_settings,
)
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary, read_summary
from unhang.wire.guard_statement import MARK, GuardStatement, decode_statement
from unhang.wire.process_registration import ProcessRegistration, read_registration
from unhang.wire.record import MAGIC, RecordWriter, read_record
from unhang.wire.record_views import (
    CodeLine,
    GroupProgress,
    GuardWait,
    MarkedPhase,
    RankIdentity,
    RecordView,
    TimeSpent,
)
from unhang.wire.uncaught_exception import UncaughtException, read_exceptions

GOLDEN = Path(__file__).parent / "golden"
SOURCE = Source("golden")
IDENTITY = RankIdentity(4711, 3, 1, 8, 1, 5, "3.12.1", "2.9.0")
VIEW = RecordView(
    identity=IDENTITY,
    recorder_on=True,
    backend="nccl",
    beat_ns=10,
    beat_wall_ns=11,
    beats=12,
    beat_cost_ns=13,
    longest_beat_ns=14,
    longest_pause_ns=15,
    thread_id=4712,
    threads=2,
    phase="save",
    stack_hash=16,
    since_ns=17,
    sampled_ns=18,
    user=CodeLine("/job/train.py", 47, "train"),
    top=CodeLine("/lib/socket.py", 9, "recv"),
    stack="/lib/socket.py:9:recv\n/job/train.py:47:train\n",
    partner=2,
    step_source="guards",
    steps=100,
    collectives_per_step=3,
    last_step_ns=19,
    step_mean_ns=2.5,
    step_durations_ns=[20, 21],
    dump_served=1,
    stacks_served=2,
    dumped_ns=22,
    dump_result="written",
    dump_cost_ns=23,
    groups=[GroupProgress("tp", 4, 9, 8, 7, 24, sure=True, backend="nccl")],
    mark=MarkedPhase("evaluation", "eval", 25, 26),
    wait=GuardWait("together('save')", (1, 2, 5), 27, 28),
    spent=[TimeSpent("checkpoint", 29, 2)],
)
REGISTRATION = ProcessRegistration(4711, 1, 3, 1, 8, 0, "h1", "train.py", 1.5)
STATEMENT = GuardStatement(
    "missing", "together('save')", (1,), (0,), CodeLine("train.py", 4, "save"), "if rank == 0", waited_s=60.0
)
MANIFEST = bundle.BundleManifest(
    source=SOURCE,
    world_size=2,
    backend="nccl",
    torch_version="2.9.0",
    stalled_since_s=1.5,
    taken_s=9.0,
    live=True,
    source_root="source",
    source_prefix="/",
    log_bytes={"logs/attempt_0/0/stdout.log": 10},
    files=("dumps/rank_0",),
    processes=(
        bundle.RankProcess(
            0,
            pid=4711,
            host="h1",
            local_rank=0,
            state="S",
            moving=False,
            beats=True,
            marked=bundle.MarkedPhase("evaluation", 3.0, "eval", 600.0),
            guard_wait=bundle.GuardWait("save", 4.0, (1,), 60.0),
            awaits=bundle.ExternalWaits(
                ("10.0.0.9:443",), (bundle.HeldLock("/job/x.lock", 5, "python a.py", 2.0),), (bundle.EndedChild(6, 9),)
            ),
            groups={"tp": 2},
        ),
        bundle.RankProcess(1, pid=4712, host="h1", exit_code=-9, ended_s=8.0, not_seen="may not be traced"),
    ),
)
PACE = pace.Pace(
    source=SOURCE,
    samples=60,
    ranks=(
        pace.RankPace(0, ((10, 0.5),), 0.9, (pace.PacePlace(0.9, "communication", (("/job/train.py", 13, "train"),)),)),
    ),
)
COMPARISON = call_comparison.CallComparison(
    source=SOURCE,
    group="0",
    position=7,
    times=2,
    calls=(
        call_comparison.ComparedCall(0, "all_reduce", ((4,),), ((4,),), ("float",), ("float",)),
        call_comparison.ComparedCall(1, "all_reduce", ((4,),), ((4,),), ("int",), ("int",), (("/job/a.py", 3, "f"),)),
    ),
)
NODE = other_nodes.ObservedNode(
    source=SOURCE,
    number=1,
    name="h2",
    host="h2",
    ranks=(1,),
    silent_s=9.0,
    answers=False,
    answered=True,
    ahead_s=-0.5,
    positions=(other_nodes.GroupPositions("0", (1,), (9,), (8,)),),
)
SETTINGS = run_settings.RunSettings(
    source=SOURCE,
    unhang="0.1.0",
    written_s=1.5,
    command=("torchrun", "train.py"),
    folder="/job",
    world_size=8,
    nodes=(run_settings.NodeDescription("h1", "6.1", 64, 32, 1 << 30),),
    versions={"torch": "2.9.0"},
    environment={"NCCL_DEBUG": "WARN"},
    cards=(run_settings.GpuDescription(0, "H100", "GPU-0", 80 << 30, 16, 1),),
    files=(run_settings.SettingsFile("ds.json", "deepspeed", "aa", {"zero.stage": "2"}),),
    program={"path": "train.py"},
    not_looked=("the driver: it is not there",),
)
SUSPECT = earlier_verdicts.EarlierSuspect("host", "h7", "gpu-hardware", 2, 9.5)
CHECKPOINT = Checkpoint("/job/ck/step_9", LAYOUTS[0], 1.5, 9)
PLAN = RunPlan(
    command=["torchrun", "train.py"], records="/dev/shm/r", started_s=1.5, front_pid=4, job_pid=5, cwd="/job"
)
SUMMARY = VerdictSummary(
    *(1, VerdictLevel.STALL.value, "hang", "rank-frozen", "certain", (3,), "train.py:3", "rank 3 is stopped"),
    *(1.5, 600.0, False, True, False, False),
)
ROW = {
    "rank": 3,
    "attempt": 0,
    "at_s": 9.5,
    "step": 40,
    "steps": 4,
    "took_s": 2.0,
    "longest_s": 0.75,
    "for_s": 2.5,
    "calls": 120,
    "calls_a_step": 3,
    "looks": 10,
    "waits": 4,
    "doing": ((1, "compute", False, 6),),
}


LIVE = live_state.LiveState(
    *(live_state.SCHEMA, 9.5, False),
    live_state.LiveRun(["torchrun", "train.py"], "/job/run", 1.5, 2, ["h1"]),
    live_state.RankColumns([0], [0], [2], [3], [-1], [0], [40], [0.5], [1.0], [-1.0], [0.25]),
    ["train.py:12"],
    [],
    [live_state.GroupColumns("0", "nccl", 2, [0], [9], [8])],
    live_state.LiveWait([0], [1], 12.5, urgent=False),
    live_state.LiveVerdict("stall", "hang", "rank-frozen", "certain", [1], "train.py:3", "rank 1 is stopped"),
    live_state.LiveTotals(40, 0.5, None, {"save": (1.5, 2)}, ["rank-frozen"]),
)
EXCEPTION = UncaughtException(
    time_s=1.5,
    thread="MainThread",
    type="ValueError",
    message="no",
    file="train.py",
    line=3,
    function="main",
    frames=[("train.py", 3, "main")],
)


class Format(NamedTuple):
    """``content``: what is written of ``value`` today; ``read``: what today's reader makes of a file."""

    value: Any
    content: Callable[[Path], bytes]
    read: Callable[[Path], Any]


def record_of(folder: Path) -> bytes:
    path = folder / "written.rec"
    writer = RecordWriter.create(path, IDENTITY)
    writer.now = VIEW
    writer.publish()
    return path.read_bytes()


def control_of(folder: Path) -> bytes:
    writer = Control.create(folder)
    writer.now = Control(1, 2, 3, 500, 4711, 6)
    writer.publish()
    return (folder / "control").read_bytes()


def control_in(path: Path) -> Control | None:
    reader = Control.open_read(path.parent)
    return reader.read() if reader is not None else None


def lines_of(path: Path) -> list[dict[str, Any]]:
    names = set(ROW)
    lines = rank_series.read_lines(path.read_bytes().splitlines()[1:])
    return [{name: getattr(line, name) for name in names} for line in lines if line is not None]


def document(value: Any, read: Callable[..., Any]) -> Format:
    return Format(value, lambda _: value.json(), lambda path: read(path.read_bytes(), source=SOURCE))


SERIES_HEAD = b'{"schema":"unhang.series/1","width_s":1.0}\n'
FORMATS = {
    "rank.rec": Format(VIEW, record_of, read_record),
    "control": Format(Control(1, 2, 3, 500, 4711, 6), control_of, control_in),
    "registration.json": Format(REGISTRATION, lambda _: json.dumps(asdict(REGISTRATION)).encode(), read_registration),
    "guard_statement.txt": Format(
        json.loads(json.dumps({name: told for name, told in asdict(STATEMENT).items() if told})),
        lambda _: STATEMENT.line().encode(),
        lambda path: decode_statement(path.read_text()),
    ),
    "crash/rank_0.except": Format(
        [EXCEPTION], lambda _: EXCEPTION.encode(), lambda path: list(read_exceptions(path.parents[1], 0))
    ),
    "bundle.json": document(MANIFEST, bundle.read_manifest),
    "pace.json": document(PACE, pace.read_pace),
    "compared.json": Format(
        (COMPARISON,),
        lambda _: call_comparison.CallComparisons(
            groups=(msgspec.structs.replace(COMPARISON, source=Source("")),)
        ).json(),
        lambda path: call_comparison.read_call_comparisons(path.read_bytes(), source=SOURCE),
    ),
    "nodes.json": Format(
        (NODE,),
        lambda _: other_nodes.ObservedNodes(nodes=(msgspec.structs.replace(NODE, source=Source("")),)).json(),
        lambda path: other_nodes.read_nodes(path.read_bytes(), source=SOURCE),
    ),
    "settings.json": document(SETTINGS, run_settings.read_run_settings),
    "history.json": Format(
        (SUSPECT,),
        lambda _: earlier_verdicts.suspect_listing([SUSPECT]),
        lambda path: earlier_verdicts.read_suspect_listing(path.read_bytes(), source=SOURCE),
    ),
    "checkpoints.json": Format(
        (CHECKPOINT,),
        lambda _: checkpoint_listing([CHECKPOINT]),
        lambda path: read_checkpoint_listing(path.read_bytes(), source=SOURCE),
    ),
    "live.json": Format(
        LIVE,
        lambda _: msgspec.json.encode(LIVE),
        lambda path: msgspec.json.decode(path.read_bytes(), type=live_state.LiveState),
    ),
    "run.json": Format(PLAN, lambda _: PLAN.json(), lambda path: msgspec.json.decode(path.read_bytes(), type=RunPlan)),
    "summary.json": Format(SUMMARY, lambda _: json.dumps(asdict(SUMMARY)).encode(), read_summary),
    "ranks.jsonl": Format(
        [ROW],
        lambda _: SERIES_HEAD + json.dumps(ROW).encode() + b"\n",
        lines_of,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_today_is_the_same(name: str, tmp_path: Path) -> None:
    assert FORMATS[name].content(tmp_path) == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_written_is_read(name: str) -> None:
    assert FORMATS[name].read(GOLDEN / name) == FORMATS[name].value


def test_versions_are_where_readers_of_any_version_look_for_them() -> None:
    assert struct.unpack_from("<8sI", (GOLDEN / "rank.rec").read_bytes()) == (MAGIC, 5)
    assert (GOLDEN / "guard_statement.txt").read_text().startswith(MARK)
    assert len(layout.pack(VIEW)) < 4096


if __name__ == "__main__":
    import tempfile

    for name, form in FORMATS.items():
        if not (GOLDEN / name).exists():
            with tempfile.TemporaryDirectory() as folder:
                (GOLDEN / name).write_bytes(form.content(Path(folder)))
