"""Read what torch did not write itself with Python's own unpickler, in a process that may be lost.

The unpickler is told to import nothing and to call nothing, so a pickle can build plain values only. It can still take
memory without end, or crash the interpreter by hashing tuples nested too deep: so it runs within bounds, in a process
that does nothing but read dumps, and never in the process of the caller.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from unhang.errors import DumpError
from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.json_text import looks_like_json, read_json
from unhang.evidence.flight_recorder.nonstandard_pickle import check_root, read_nonstandard_pickle
from unhang.evidence.flight_recorder.parsed_dump import ParsedDump
from unhang.evidence.flight_recorder.process_limits import MEMORY_BYTES, limited_process
from unhang.evidence.flight_recorder.ring_window import dump_of_objects


def read_sandboxed(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    """The dump ``data`` in any layout, within bounds that hold; in a process that may be lost.

    Raises :class:`DumpError` when it is none, is refused, or needs more memory than any dump does.
    """
    with limited_process(len(data)):
        try:
            return _read(data, shared, whole=whole)
        except (MemoryError, RecursionError):
            raise DumpError(
                f"refused: it unpacks to far more than a dump holds (at most {MEMORY_BYTES >> 20} MiB)"
            ) from None


def _read(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    if looks_like_json(data):
        return read_json(data, shared, whole=whole)
    root = None if whole else unpickled(data)  # our own machine tells where each entry stands
    if root is None:
        return read_nonstandard_pickle(data, shared, whole=whole)  # torn, or refused with a reason
    check_root(root)
    return dump_of_objects(root, shared, whole=whole)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise pickle.UnpicklingError(f"asks for {module_name}.{global_name}")

    def persistent_load(self, pid: Any, /) -> Any:
        raise pickle.UnpicklingError(f"asks for an object outside of it, {type(pid).__name__}")


def unpickled(data: bytes) -> Any:
    """The plain value of the pickle ``data``; None when it is torn, asks for more, or needs too much memory."""
    try:
        # buffered: the unpickler then looks ahead instead of asking for each opcode
        return _PlainUnpickler(io.BufferedReader(io.BytesIO(data)), fix_imports=False).load()
    except Exception:  # noqa: BLE001 - a broken pickle may raise anything; our own machine then says what is wrong
        return None
