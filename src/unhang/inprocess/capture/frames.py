"""What the thread that issues collectives is doing, from its frames: no source is read, no frame is kept."""

from __future__ import annotations

import sys
import threading
from itertools import accumulate
from types import FrameType

from unhang.inprocess import code_phases
from unhang.wire.layout import STACK_BYTES
from unhang.wire.record_views import CodeLine, RecordView

_DEPTH = 64
"""Of the inner frames, by which two samples are compared."""
_MAX_FRAMES = 256
_FALL_NS = 1_000_000_000
"""So long after an exception that ends the rank, where it was raised tells more than the hooks that it runs then."""
_OTHERS = 32


class StackSampler:
    """Samples one thread at every beat: the one that entered init_process_group, unless it only waits for others."""

    def __init__(self, issuer: int, native_id: int) -> None:
        self.issuer, self.native_id = issuer, native_id
        self.own = threading.get_ident()
        self.phase = "other"
        """Of the last stack."""
        self._hash = 0
        self._fell: tuple[list[tuple[str, int, str]], int] = ([], 0)

    def falls(self, lines: list[tuple[str, int, str]], now_ns: int) -> None:
        """An exception that nobody caught ends the rank: ``lines`` of its frames, innermost first."""
        self._fell = (lines, now_ns)

    def sample(self, view: RecordView, now_ns: int) -> None:
        """Write thread, phase (the stack's), places and stack into ``view``; times in monotonic nanoseconds."""
        frames = sys._current_frames()  # noqa: SLF001  the only way to see another thread
        frames.pop(self.own, None)  # it would hold this very dictionary, and with it everybody's variables
        try:
            ident = self._sample(frames, view, now_ns)
            view.partner = partner_of(frames.get(ident))  # at one place of a loop it is with one after the other
        finally:
            frames.clear()

    def _sample(self, frames: dict[int, FrameType], view: RecordView, now_ns: int) -> int:
        """The thread that was sampled."""
        view.threads, view.sampled_ns = min(len(frames), 255), now_ns  # one byte of a record
        ident = self.issuer
        lines, fell_ns = self._fell
        if lines and now_ns - fell_ns < _FALL_NS:
            self._hash, digest = 0, (hash(tuple(lines)) & (2**64 - 1)) or 1
            if digest != view.stack_hash:
                self._write(view, ident, lines, digest, now_ns)
            return ident
        digest = _digest(ident, frames.get(ident))
        if digest == self._hash:
            return ident
        lines = _lines(frames.get(ident))
        if not lines or _is_only_waiting(lines):
            self._hash = 0
            ident, lines, digest = _find_working_thread(frames, self.issuer) or (ident, lines, digest)
            if digest == view.stack_hash:
                return ident
        else:
            self._hash = digest
        self._write(view, ident, lines, digest, now_ns)
        return ident

    def _write(self, view: RecordView, ident: int, lines: list[tuple[str, int, str]], digest: int, now_ns: int) -> None:
        view.thread_id = self.native_id if ident == self.issuer else _native_id(ident)
        view.stack_hash, view.since_ns = digest, now_ns
        self.phase = (
            "init" if view.in_init else code_phases.phase_of_stack([(path, function) for path, _, function in lines])
        )
        view.phase = self.phase
        view.top = CodeLine(*lines[0]) if lines else CodeLine()
        view.user = next((CodeLine(*line) for line in lines if code_phases.classify_file(line[0])[0]), CodeLine())
        view.stack = _stack_text(lines)


def _digest(ident: int, frame: FrameType | None) -> int:
    """One number for a stack: the same code at the same instructions. Never zero."""
    parts: list[int] = [ident]
    depth = 0
    while frame is not None and depth < _DEPTH:
        parts.append(id(frame.f_code))
        parts.append(frame.f_lasti)
        frame = frame.f_back
        depth += 1
    return (hash(tuple(parts)) & (2**64 - 1)) or 1


def _lines(frame: FrameType | None) -> list[tuple[str, int, str]]:
    """(file, line, function), innermost first."""
    lines: list[tuple[str, int, str]] = []
    while frame is not None and len(lines) < _MAX_FRAMES:
        code = frame.f_code
        lines.append((code.co_filename, frame.f_lineno or 0, code.co_name))
        frame = frame.f_back
    return lines


def _is_only_waiting(lines: list[tuple[str, int, str]]) -> bool:
    """The stack waits for another thread and no library frame says what for."""
    return (
        bool(lines)
        and code_phases.classify_file(lines[0][0])[2]
        and code_phases.phase_of_stack([(path, function) for path, _, function in lines]) == "other"
    )


def _find_working_thread(frames: dict[int, FrameType], but: int) -> tuple[int, list[tuple[str, int, str]], int] | None:
    """The thread that communicates, else the one that computes, of all but one."""
    best, best_rank = None, 0
    for ident, frame in list(frames.items())[:_OTHERS]:
        if ident == but:
            continue
        lines = _lines(frame)
        phase = code_phases.phase_of_stack([(path, function) for path, _, function in lines])
        rank = {"communication": 3, "compute": 2, "other": 0}.get(phase, 1)
        if rank > best_rank:
            best, best_rank = (ident, lines, _digest(ident, frame)), rank
    return best


def _native_id(ident: int) -> int:
    thread = threading._active.get(ident)  # type: ignore[attr-defined]  # noqa: SLF001
    return getattr(thread, "native_id", None) or 0


def _stack_text(lines: list[tuple[str, int, str]]) -> str:
    """One ``file:line:function`` a line. Where not all fit into a record, those between are left out: the inner ones
    say what it does, the outer ones from where the program called it."""
    parts = [f"{path}:{line}:{function}\n" for path, line, function in lines]
    text = "".join(parts)
    if _size(text) <= STACK_BYTES:
        return text
    sizes = [_size(part) for part in parts]
    inner = _count_fitting(sizes, STACK_BYTES // 3)
    outer = _count_fitting(sizes[inner:][::-1], STACK_BYTES - sum(sizes[:inner]))
    return "".join(parts[:inner] + parts[len(parts) - outer :])


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "backslashreplace"))


def _count_fitting(sizes: list[int], room: int) -> int:
    """How many of the first ones."""
    return sum(total <= room for total in accumulate(sizes))


DISTRIBUTED_FILE = "/torch/distributed/distributed_c10d.py"
_NAMES = {"send": "dst", "recv": "src"}


def partner_of(frame: FrameType | None) -> int:
    """Global rank of the partner of the call that ``frame`` is in; -1 where it is none, or takes from anybody."""
    if frame is None or not frame.f_code.co_filename.endswith(DISTRIBUTED_FILE):
        return -1
    name = _NAMES.get(frame.f_code.co_name)
    if name is None:
        return -1
    values = frame.f_locals
    partner = values.get(name)
    if partner is None and values.get(f"group_{name}") is not None:
        partner = _global(values.get("group"), values[f"group_{name}"])
    return partner if isinstance(partner, int) and partner >= 0 else -1


def _global(group: object, rank: object) -> object:
    """Torch knows the ranks of a group by a dictionary: nothing is asked of other ranks."""
    try:
        return sys.modules["torch.distributed.distributed_c10d"].get_global_rank(group, rank)
    except Exception:  # noqa: BLE001  whatever it is, the partner is not known
        return None
