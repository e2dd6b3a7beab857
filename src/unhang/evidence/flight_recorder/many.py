from collections.abc import Iterable, Iterator
from typing import Any
from unhang.evidence.items import Recording
from unhang.findings import Unread
from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.reading import read_recording
def read_recordings(paths: Iterable[Any], *, jobs: int | None = None, progress: Any = None, whole: bool=False) -> Iterator[Recording | Unread]:
    shared = SharedTables()
    for p in paths:
        yield read_recording(p, shared=shared, whole=whole)
