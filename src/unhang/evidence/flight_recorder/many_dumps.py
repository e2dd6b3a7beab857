"""Read many dumps: as torch writes them in this process, when they are few, and with workers otherwise."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from unhang.evidence.file_names import rank_from_name
from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.header import ParsedDump
from unhang.evidence.flight_recorder.json_text import looks_like_json
from unhang.evidence.flight_recorder.ranged_dump import RangedDump, all_of
from unhang.evidence.flight_recorder.reading import read_fallback, read_recorder_dump
from unhang.evidence.flight_recorder.workers import DumpInput, DumpItem, Worker
from unhang.evidence.found_files import FileIdentity
from unhang.evidence.items import RecorderDump
from unhang.evidence.worker_process import WorkerPool, cores
from unhang.findings import Source, Unread

INLINE_FILES: Final = 96
"""So few files as torch writes them are read faster than workers start (about 0.15 s)."""
MAX_JOBS: Final = 16
_BATCH: Final = 32
_INLINE_BYTES: Final = 1 << 19
"""So much of pickles that torch did not lay out itself is read faster than a worker starts."""
_JSON_IS_FASTER: Final = 8

Batch = list[DumpInput]


class NeedsWorker(Exception):
    """This dump is better read by a worker."""


class InProcessReader:
    """Reads dumps of unknown layout in this process until their total size passes a limit; then raises NeedsWorker."""

    def __init__(self) -> None:
        self._left = _INLINE_BYTES

    def __call__(self, data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
        """The dump ``data``. Raises :class:`NeedsWorker` when it would take too long."""
        cost = len(data) // _JSON_IS_FASTER if looks_like_json(data) else len(data)
        if cost > self._left:
            raise NeedsWorker
        self._left -= cost
        return read_fallback(data, shared, whole=whole)


def read_recorder_dumps(
    paths: Iterable[str | Path],
    *,
    jobs: int | None = None,
    whole: bool = False,
    identities: Sequence[FileIdentity | None] | None = None,
) -> Iterator[DumpItem]:
    """One item for each of ``paths``, in their order: a :class:`RecorderDump`, or :class:`Unread` with the reason.

    ``jobs`` is the number of worker processes (default: the cores this process may use, at most 16); few files are
    read in this process. ``whole`` as in :func:`read_recorder_dump`, and so are ``identities``, one a path.
    """
    plain = [os.fspath(path) for path in paths]
    names = [DumpInput(name, None, one) for name, one in zip(plain, identities or [None] * len(plain), strict=True)]
    workers = min(jobs if jobs is not None else cores(), MAX_JOBS, -(-len(names) // _BATCH))
    inline = workers <= 1 or (jobs is None and len(names) <= INLINE_FILES)
    shared = SharedTables()
    return _read_here(names, workers, shared, whole) if inline else _read_spread(names, workers, shared, whole)


def _read_here(dumps: Sequence[DumpInput], workers: int, shared: SharedTables, whole: bool) -> Iterator[DumpItem]:
    others = read_fallback if whole else InProcessReader()
    for index, dump in enumerate(dumps):
        try:
            item = read_recorder_dump(dump.name, whole=whole, shared=shared, others=others, identity=dump.identity)
        except NeedsWorker:
            yield from _read_spread(dumps[index:], workers, shared, whole)
            return
        except Exception as error:  # noqa: BLE001 - one dump that the reader fails on must not cost the others
            item = Unread.after(error, Source(dump.name), rank_from_name(dump.name))
        yield item


def _read_spread(names: Sequence[DumpInput], workers: int, shared: SharedTables, whole: bool) -> Iterator[DumpItem]:
    waiting: deque[tuple[int, Batch]] = deque()
    size = max(1, min(_BATCH, -(-len(names) // (workers * 4))))
    for index in range(0, len(names), size):
        waiting.append((index, list(names[index : index + size])))
    done: dict[int, list[DumpItem]] = {}
    following = 0
    pool = WorkerPool(workers, waiting, lambda: Worker(whole=whole), lambda some: _read_slowly(some, whole))
    with closing(pool) as crew:
        while following < len(names):
            while following in done:
                items = intern_dumps(done.pop(following), shared)
                following += len(items)
                yield from items
            if following < len(names):
                start, items = crew.next_batch()
                done[start] = items


def _read_slowly(dumps: Batch, whole: bool) -> list[DumpItem]:
    shared = SharedTables()
    return [read_recorder_dump(one.name, whole=whole, shared=shared, identity=one.identity) for one in dumps]


class SingleDumpReader:
    """Reads dumps that are no files, such as members of an archive, each as it comes. Close it in the end."""

    def __init__(self) -> None:
        self._shared = SharedTables()
        self._here = InProcessReader()
        self._worker: Worker | None = None

    def read(self, content: bytes | RangedDump, *, source: str, written_s: float | None = None) -> DumpItem:
        """The dump ``content``, which the report calls ``source``; ``written_s``: when, if that is known."""
        try:
            return read_recorder_dump(
                content, source=source, shared=self._shared, others=self._here, written_s=written_s
            )
        except NeedsWorker:
            item = self._with_worker(DumpInput(source, all_of(content)))
        if isinstance(item, RecorderDump):
            item.written_s = written_s
        return item

    def _with_worker(self, dump: DumpInput) -> DumpItem:
        if self._worker is None:
            try:
                self._worker = Worker(whole=False)
            except OSError:
                return read_recorder_dump(dump.content or b"", source=dump.name, shared=self._shared)
        self._worker.ask([dump])
        answer = self._worker.answer()
        if answer is not None:
            return intern_dumps(answer, self._shared)[0]
        [lost] = self._worker.end_without_answer(dump)
        self.close()
        return lost

    def close(self) -> None:
        """End the process, if one was needed."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def intern_dumps(items: list[RecorderDump | Unread], shared: SharedTables) -> list[RecorderDump | Unread]:
    """``items`` of one batch with their equal values replaced by those of earlier batches.

    Within a batch equal values are one object already (a worker shares them), so each is compared once.
    """
    known: dict[int, Any] = {}

    def one(value: Any) -> Any:
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = (shared.one(value), value)  # the key's object must live as long as the key
        return found[0]

    for item in items:
        if isinstance(item, RecorderDump):
            _intern_dump(item, one)
    return items


def _intern_dump(recording: RecorderDump, one: Callable[[Any], Any]) -> None:
    entries = recording.entries
    entries.stacks = tuple(map(one, entries.stacks))
    entries.signatures = tuple(map(one, entries.signatures))
    entries.group_names = one(entries.group_names)
    recording.groups = {key: one(config) for key, config in recording.groups.items()}
