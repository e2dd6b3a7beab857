"""A function for each reader: bytes and a folder in, what was read out. Sizes at which one changes are small here."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.fuzz.seeds import write_files
from unhang.errors import UnhangError
from unhang.evidence.archives import leaves_folder
from unhang.evidence.checkpoints import checkpoint_listing
from unhang.evidence.checkpoints.checkpoint_search import find_checkpoints
from unhang.evidence.file_names import host_from_name, rank_from_name
from unhang.evidence.flight_recorder import json_text, many_dumps, workers
from unhang.evidence.flight_recorder import reading as recording_reading
from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.many_dumps import intern_dumps
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.format_detection import detect_format
from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import RecorderDump
from unhang.evidence.logs import read_log
from unhang.evidence.logs import reading as log_reading
from unhang.evidence.logs.blocks import Blocks
from unhang.evidence.logs.content.stacks_in_logs import LogStackReader
from unhang.evidence.logs.scan import literal_filters, literal_search
from unhang.evidence.logs.scan.literal_filters import PlainSearch
from unhang.evidence.logs.scan.literal_positions import LiteralFinder, Literals
from unhang.evidence.profiler_trace import read_trace_head
from unhang.evidence.read_limits import DEFAULT_LIMITS, ReadLimits
from unhang.evidence.recorder_dump_json import recorder_dump_as_json
from unhang.evidence.stacks import read_stacks, stack_limits
from unhang.evidence.stacks import reading as stack_reading
from unhang.evidence.stacks.torn_stacks import is_torn_off, main_thread_depth
from unhang.evidence.worker_process import ItemUnpickler
from unhang.findings import Source
from unhang.knowledge.messages import load_messages, match_message
from unhang.wire.documents import (
    bundle,
    call_comparison,
    earlier_verdicts,
    machine_series,
    other_nodes,
    pace,
    run_settings,
)
from unhang_compare.kineto import columns, event_stream, names, sweep
from unhang_compare.kineto.reading import read_trace
from unhang_compare.rank_times import read_rank_series
from unhang_lab.dump_writer import StalledJob

Reader = Callable[[bytes, Path], Any]
_SOURCE = Source("fuzzed")
SMALL = ReadLimits(
    files=3, depth=2, members=4, unpacked=1 << 16, ratio=4, ratio_floor=1 << 12, dump=1 << 14, text=1 << 10
)


class Wrong(Exception):
    """A reader that did not fail, and still said something wrong."""


def files_in(data: bytes) -> dict[str, bytes]:
    """The folder that ``data`` (a zip) holds; empty where it is none."""
    with suppress(Exception), zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}
    return {}


def _folder(data: bytes, place: Path) -> Path:
    folder = place / "given"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_files({name: content for name, content in files_in(data).items() if not leaves_folder(name)}, folder)
    return folder


def _log(data: bytes, place: Path) -> Any:
    listener = LogStackReader()
    reading = read_log(io.BytesIO(data), source="fuzzed_rank_1.log", rank=1, listener=listener, modified_s=1.7e9)
    return [reading, *listener.stacks("fuzzed", 1)]


@cache
def _steps(count: int) -> bytes:
    return b"".join(b"[rank%d]: step %d loss 1.0\n" % (at % 4, at) for at in range(count))


_SMALL_BLOCKS: dict[str, Any] = {
    "PASTE_BYTES": 1 << 9, "_TAIL_BYTES": 256, "_LATER_TAIL_BYTES": 64, "_EARLY_BLOCKS": 3, "_DENSE_BLOCKS": 6,
    "_TROUBLES": 3, "_DENSE_BYTES": 64, "_LOOK_BACK": 3,
}  # fmt: skip


def _large_log(data: bytes, place: Path) -> Any:
    """In the middle of a log of many blocks, of which only parts are read; of 1 MiB each for one in 256."""
    if len(data) % 256 == 0:
        return _log(_steps(50_000) + data + b"\n" + _steps(50_000), place)
    around = _steps(300)
    whole = around + (data + b"\n") * (1 + len(data) % 3) + around
    with patch.multiple(log_reading, Blocks=partial(Blocks, block_bytes=1 << 11), **_SMALL_BLOCKS):
        return _log(whole, place)


@cache
def _known() -> Literals[str]:
    return Literals([(anchor.encode("ascii"), anchor) for row in load_messages() for anchor in row.anchors])


@cache
def _finders() -> list[Any]:
    """Plain search, our own filter and the compiled one, each as it is in the middle of a log."""
    known = _known()
    return [PlainSearch(known.anchors), known.fresh(), LiteralFinder(known, compile_from=0)]


def _literals(data: bytes, place: Path) -> Any:
    """All filters find the same; one in 16 only the first place of some literals, which takes a filter of its own."""
    finders = _finders()
    with (
        patch.object(literal_search, "_TUNE_FROM", 64 if len(data) % 16 == 0 else 1 << 18),
        patch.object(literal_filters, "_WORTH_COMPILING", 2),
    ):
        if len(data) % 16 == 0:
            _finders.cache_clear()
            for finder in finders:
                finder.places(data)
                for _, tags in _known().anchors[::3]:
                    for tag in tags:
                        finder.quiet(tag)
        for block in (data, data[len(data) // 2 :] * 2):
            found = [sorted(finder.places(block)) for finder in finders]
            if found[1:] != found[:-1]:
                raise Wrong(f"{[len(one) for one in found]} literals")


def _stacks(data: bytes, place: Path) -> Any:
    dumps = list(read_stacks(data, source="fuzzed", rank=None))
    for earlier_one, later in pairwise(dumps):
        is_torn_off(later, earlier_one), main_thread_depth(later)
    with (
        patch.object(stack_reading, "FrameBudget", partial(stack_limits.FrameBudget, left=9)),
        patch.multiple(stack_limits, INNERMOST_KEPT=2, OUTERMOST_KEPT=1),
        patch.object(stack_reading, "MAX_BYTES", 1 << 10),
    ):
        return [*dumps, *read_stacks(data, source="fuzzed", rank=3)]


def _dump(data: bytes, place: Path) -> Any:
    path = place / "dump_rank_1"
    path.write_bytes(data)
    found = [read_recorder_dump(path), read_recorder_dump(data, source="rank_1", whole=True)]
    with patch.object(json_text, "_AT_ONCE", 64), patch.object(recording_reading, "MAX_BYTES", 1 << 16):
        found.append(read_recorder_dump(data, source="rank_1"))
    for one in found:
        if isinstance(one, RecorderDump) and len(one.entries):
            again = read_recorder_dump(recorder_dump_as_json(one), source="again")
            if not isinstance(again, RecorderDump) or len(again.entries) < min(64, len(one.entries)):
                raise Wrong(f"written again it is read as {again!r}"[:300])
    return found


def _confined(data: bytes, place: Path) -> Any:
    """What a process does that reads dumps for us, in this one."""
    given = json.dumps([["rank_1", len(data), None], ["nowhere", None, [1, 2]]]).encode() + b"\n" + data
    answers = io.BytesIO()
    workers.serve_requests(io.BytesIO(given), answers, whole=len(data) % 4 == 0)
    return intern_dumps(ItemUnpickler(io.BytesIO(answers.getvalue()[8:]), workers.ANSWER_TYPES).load(), SharedTables())


@cache
def _good() -> bytes:
    return next(StalledJob(ranks=8, entries=70, frames=2).dumps(1))[1]


DEEP = b"\x80\x02}(X\x07\x00\x00\x00versionX\x01\x00\x00\x002)" + b"\x85" * 400_000 + b"Nu."
"""Tuples in tuples as a key: it ends the process that hashes them."""


def _many_dumps(data: bytes, place: Path) -> Any:
    """More dumps than one process reads, or one after the other; one in 32 in processes, 0.2 s each."""
    busy = len(data) % 32 == 0
    hasty = len(data) % 256 == 32
    with (
        patch.object(many_dumps, "_INLINE_BYTES", 0 if busy else 1 << 20),
        patch.object(many_dumps, "_BATCH", 2),
        patch.object(workers, "_ANSWER_LIMIT_S", 0.0 if hasty else 30.0),
        patch.object(workers, "_LOADED", 0 if hasty else 2),
    ):
        apart = many_dumps.SingleDumpReader()
        try:
            told = [apart.read(data, source="a.zip!rank_3")]
        finally:
            apart.close()
        paths = [place / f"rank_{rank}" for rank in range(6 if busy else 1)]
        for path in paths:
            path.write_bytes(data if path.name[-1] == "1" else _good())
        if len(data) % 256 == 0:
            paths[-1].write_bytes(DEEP)
        identities = [None if at else (1, 2) for at in range(len(paths))]
        return [
            *told,
            *many_dumps.read_recorder_dumps([*paths, place / "none"], jobs=2, identities=[*identities, None]),
        ]


def _trace(data: bytes, place: Path) -> Any:
    path = place / "rank0_trace.json"
    path.write_bytes(data)
    if len(data) % 2:
        read_trace_head(path), read_trace_head(place)
        return [read_trace(path, seen=lambda _count, _name: None), read_trace(place)]
    with (
        patch.multiple(columns, RUN_EVENTS=16, MIN_READ=3),
        patch.object(event_stream, "PIECE_BYTES", 1 << 12),
        patch.object(names, "MAX_NAMES", 12 if len(data) % 4 else 1 << 20),
        patch.object(sweep, "MAX_CELLS", 1 if len(data) % 8 else 1 << 20),
    ):
        return read_trace(path)


def _series(data: bytes, place: Path) -> Any:
    path = place / "ranks.jsonl"
    path.write_bytes(data)
    found = read_rank_series(path, source=_SOURCE)
    return list(found) if isinstance(found, tuple) else found


def _manifest(data: bytes, place: Path) -> Any:
    path = place / "bundle.json"
    path.write_bytes(data)
    found = (
        bundle.read_manifest(path, source=_SOURCE) if len(data) % 2 else bundle.read_manifest(data, source=str(path))
    )
    if isinstance(found, bundle.BundleManifest):
        for name in ("dumps/rank_0", "stacks/rank_1.txt", "logs/attempt_0/1/stderr.log", "source/a.py", "x"):
            bundle.rank_of_file(found, name), bundle.source_path_of_file(found, name)
            bundle.log_bytes_at_capture([found], str(place / name))
    return found


def _paper(read: Callable[..., Any]) -> Reader:
    return lambda data, place: read(data, source=_SOURCE)


def _settings(data: bytes, place: Path) -> Any:
    with patch.object(run_settings, "MAX_BYTES", 1 << (6 if len(data) % 8 == 0 else 20)):
        return run_settings.read_run_settings(data, source=_SOURCE)


def _any_file(data: bytes, place: Path) -> Any:
    """A file of any kind, by its name or through a pipe, and with little that may be taken in."""
    path = place / "file"
    path.write_bytes(data)
    with suppress(UnhangError):
        return read_evidence([str(path)], limits=SMALL if len(data) % 3 == 0 else DEFAULT_LIMITS).unread


def _piped(data: bytes, place: Path) -> Any:
    """As ``unhang diagnose <(ssh node cat job.log)`` gives it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, data[: 1 << 15])
        os.close(writer)
        with suppress(UnhangError):
            return read_evidence([f"/dev/fd/{reader}"], limits=SMALL if len(data) % 3 == 0 else DEFAULT_LIMITS).unread
    finally:
        os.close(reader)


def _any_folder(data: bytes, place: Path) -> Any:
    """Files beside what should not be followed, opened or waited for; named as a folder, by globs, and not at all."""
    folder = _folder(data, place)
    (folder / "loop").symlink_to(folder / "loop")
    (place / "outside").mkdir(exist_ok=True)
    (folder / "out").symlink_to(place / "outside")
    (folder / "gone").symlink_to(folder / "nowhere")
    (folder / "same").symlink_to(folder)
    os.mkfifo(folder / "waits")
    (folder / "a/b/c/d").mkdir(parents=True, exist_ok=True)
    if not (folder / "x.log").is_file():
        with suppress(UnhangError):
            read_evidence([])
    named: list[list[str]] = [
        [str(folder / "none")],
        [str(folder / "a/b/c/d")],
        [str(folder)],
        [f"{folder}/*"],
        [f"{folder}/**", str(folder / "none")],
        [f"{folder}/x*", f"{folder}/**/*.log"],
    ]
    with suppress(UnhangError):
        found = read_evidence(named[len(data) % len(named)], limits=SMALL if len(data) % 3 == 0 else DEFAULT_LIMITS,
                              progress=lambda done, size, name: None)  # fmt: skip
        return found.unread


def _checkpoints(data: bytes, place: Path) -> Any:
    """A folder as libraries save it, and one file of it by its name."""
    folder = _folder(data, place)
    single = sorted(path for path in folder.rglob("*") if path.is_file())[:2]
    return list(find_checkpoints([folder, *single, place / "none"], world_size=(None, 2, 3)[len(data) % 3]))


def _name(data: bytes, place: Path) -> Any:
    text = data[:200].decode("utf-8", "replace")
    earlier_verdicts.gpus_named(text, ["h1"])
    return [rank_from_name(text), host_from_name(text), detect_format(data, text), *match_message(text)]


READERS: dict[str, Reader] = {
    "log": _log,
    "large log": _large_log,
    "literals": _literals,
    "stacks": _stacks,
    "recording": _dump,
    "confined": _confined,
    "many dumps": _many_dumps,
    "manifest": _manifest,
    "pace": _paper(pace.read_pace),
    "compared": _paper(call_comparison.read_call_comparisons),
    "checkpoints": _paper(checkpoint_listing.read_checkpoint_listing),
    "earlier": _paper(earlier_verdicts.read_suspect_listing),
    "nodes": _paper(other_nodes.read_nodes),
    "machine": _paper(machine_series.read_machine_series),
    "settings": _settings,
    "trace": _trace,
    "series": _series,
    "saved": _checkpoints,
    "file": _any_file,
    "pipe": _piped,
    "folder": _any_folder,
    "name": _name,
}
TREES = ("saved", "folder")
"""Readers of folders: what they are given is a zip of one."""


def unread_of(found: Any) -> Iterator[Any]:
    """What was not read, of whatever a reader returned."""
    for item in found if isinstance(found, list | tuple) else [found]:
        yield from (item,) if hasattr(item, "failed") else getattr(item, "unread", ())
