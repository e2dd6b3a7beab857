"""``BackgroundWriter(writer)``: a thread of its own writes what is logged, so that slow storage slows no step."""

from __future__ import annotations

import atexit
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from unhang.errors import UsageError
from unhang.guards import before_the_end
from unhang.guards.exchange.call_queue import CallQueue, QueuedCall, curve_key, newest_only_matcher
from unhang.guards.exchange.printing import exception_text, print_message
from unhang.guards.exchange.value_copies import copy_value, to_host

if TYPE_CHECKING:
    from typing_extensions import Self

POLL_S = 0.2
"""So long a call waits at most before our thread looks: waking it at each call would cost the training thread more."""
CLOSE_S = 30.0
CLOSE_CHECKS = 20
"""So many times before its limit the end looks whether all can still be written."""
PACE_CALLS = 16
"""What a call takes is a running mean of about so many."""
REPEAT_FACTOR = 4.0
"""That storage is behind is said again when it is so many times further behind."""
_WRITES = {"log", "log_metric", "log_metrics", "log_scalar", "log_scalars", "log_dict", "track", "record"} | {
    "write",
    "writerow",
    "writerows",
}
_AT_ONCE = {"add_graph", "add_onnx_graph", "add_figure"}
"""They read a model or a figure, which the program goes on using."""


class BackgroundWriter:
    """Stands in for ``writer``: every ``add_*`` and ``log*`` call, ``writerow`` and the like (or a call of ``writer``
    itself, where it is a function) returns at once and is made later, in order, by one thread.

    Values are those of the moment of the call: tensors and arrays are copied (on a card without waiting for it). Other
    objects, such as ``wandb.Image``, are kept as they are. Attributes that do not write go straight to ``writer``.
    What waits is written at the end of the program, after an exception, and before SIGTERM ends the process. In a
    forked child calls do nothing.

    Args:
        writer: a ``SummaryWriter``, a W&B run, a ``csv.writer``, a function, anything with methods that write.
        max_pending: so many calls may wait. Beyond it each curve loses every second of its waiting values, never its
            newest.
        max_bytes: the same in bytes of the copied values.
        newest_only: tags (patterns such as ``"debug/*"``), or True for all, of which a newer value may take the place
            of one that still waits.
        flush: called after each round of writing, at most every ``flush_every_s``; by default ``writer.flush``.
        flush_every_s: seconds.
        behind_after_s: storage is said to be behind when a call has waited so many seconds.
        also: names of further methods that write.

    Raises:
        UsageError: no writer, or a bound that is no positive number.
    """

    def __init__(
        self,
        writer: Any,
        *,
        max_pending: int = 10_000,
        max_bytes: int = 256 << 20,
        newest_only: bool | Iterable[str] = False,
        flush: Callable[[], object] | None = None,
        flush_every_s: float = 5.0,
        behind_after_s: float = 10.0,
        also: Iterable[str] = (),
    ) -> None:
        if writer is None:
            raise UsageError("BackgroundWriter(None): pass a writer; on ranks that do not log, use None itself")
        if not (max_pending > 0 and max_bytes > 0 and flush_every_s >= 0 and behind_after_s > 0):
            raise UsageError("BackgroundWriter: max_pending, max_bytes and behind_after_s must be above 0")
        if not isinstance(newest_only, bool):
            newest_only = (newest_only,) if isinstance(newest_only, str) else tuple(newest_only)
        self._writer, self._writes = writer, _WRITES | set(also)
        self._flush_writer = flush or getattr(writer, "flush", None)
        self._flush_every_s, self._flushed_s = flush_every_s, time.monotonic()
        self._say_behind_after_ns = behind_after_s * 1e9
        self._waiting = CallQueue(max_pending, max_bytes, newest_only_matcher(newest_only))
        self._asked: deque[_FlushRequest] = deque()
        self._wake, self._over = threading.Event(), False
        self._using = threading.RLock()
        self._dirty = False
        self._flush_asked = self._flush_made = _FlushRequest(0, closing=False)
        self._call_s, self._flush_s = 0.0, 0.0
        self._pid = os.getpid()
        self.failed = 0
        """Calls of the writer that raised."""
        self.error: BaseException | None = None
        """The first of them."""
        _live.add(self)
        threading.Thread(target=self._work, name="unhang-writer", daemon=True).start()
        before_the_end.notify_before_end(self)

    # ------------------------------------------------------------------------------------------ the training thread

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_writer":
            raise AttributeError(name)
        found = getattr(self._writer, name)
        writes = name in self._writes or (name.startswith(("add_", "log_")) and name not in _AT_ONCE)
        if not callable(found) or not (writes or name in _AT_ONCE):
            return found
        made = self._at_once(found) if name in _AT_ONCE else self._later(name, found)
        self.__dict__[name] = made  # the next one comes straight here
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Where ``writer`` is a function: call it later."""
        self._put("__call__", args, kwargs)

    def flush(self) -> None:
        """Flush once what waits now is written; does not wait for it (:meth:`drain` does). Of several that wait only
        the last is made: it writes what the others would have."""
        if not self._is_over():
            self._flush_asked = _FlushRequest(self._waiting.newest, closing=False)

    def drain(self, timeout_s: float = CLOSE_S) -> bool:
        """Wait until all that was logged so far is written and flushed, ``timeout_s`` at most; whether it was."""
        return self._is_over() or self._ask(closing=False).done.wait(timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Write what waits, then close the writer itself (``close`` or ``finish``), ``timeout_s`` at most; whether that
        was done. When the time gets short only the newest value of each curve is written."""
        if self._is_over():
            return True
        written = self._ask_last(timeout_s, closing=True)
        self._over = True
        _live.discard(self)
        return written

    finish = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def behind_s(self) -> float:
        """How long the oldest call has waited, in seconds."""
        return self._waiting.oldest_s()

    @property
    def left_out(self) -> int:
        """Calls that were not made because too many waited."""
        return self._waiting.thinned

    def before_the_end(self, limit_s: float) -> None:
        """Write what waits, ``limit_s`` at most: the process is about to end. The writer stays open."""
        if not self._is_over():
            self._ask_last(limit_s, closing=False)

    def _is_over(self) -> bool:
        """It was closed, or this is a forked child."""
        return self._over or os.getpid() != self._pid

    def _ask(self, *, closing: bool) -> _FlushRequest:
        asked = _FlushRequest(self._waiting.newest, closing)
        self._asked.append(asked)
        self._wake.set()
        return asked

    def _ask_last(self, timeout_s: float, *, closing: bool) -> bool:
        """Storage may be behind by more than the time there is: all is written for as long as the newest value of each
        curve still fits behind it."""
        deadline = time.monotonic() + timeout_s
        asked = self._ask(closing=closing)
        while (
            not (written := asked.done.wait(timeout_s / CLOSE_CHECKS)) and (left_s := deadline - time.monotonic()) > 0
        ):
            if left_s < min(timeout_s / 2, max(timeout_s * 2 / CLOSE_CHECKS, self._newest_take_s())):
                self._waiting.keep_newest()
                written = asked.done.wait(left_s)
                break
        self._say_the_end(written, timeout_s)
        return written

    def _newest_take_s(self) -> float:
        """About how long the newest values would take, the call and the flush under way with them; generous."""
        return 2 * ((self._waiting.curves() + 1) * self._call_s + 2 * self._flush_s)

    def _later(self, name: str, method: Callable[..., Any]) -> Callable[..., None]:
        at_walltime = _place_of("walltime", method)
        put = self._put

        def later(*args: Any, **kwargs: Any) -> None:
            timed = at_walltime is not None and len(args) <= at_walltime and "walltime" not in kwargs
            put(name, args, kwargs, {"walltime": time.time()} if timed else None)

        return later

    def _at_once(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def now(*args: Any, **kwargs: Any) -> Any:
            with self._using:
                return method(*args, **kwargs)

        return now

    def _put(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], added: dict[str, Any] | None = None
    ) -> None:
        if self._is_over():
            return
        now_ns, key = time.monotonic_ns(), curve_key(name, args, kwargs)
        args, held = copy_value(args)
        if kwargs:
            kwargs, more = copy_value(kwargs)
            held += more
        if added is not None:
            kwargs |= added
        if now_ns - self._waiting.put(QueuedCall(name, args, kwargs, key, held, now_ns)) > self._say_behind_after_ns:
            self._say_behind()

    # ------------------------------------------------------------------------------------------------- our thread

    def _work(self) -> None:
        while True:
            self._wake.clear()
            if self._write_all():
                return
            self._wake.wait(POLL_S)

    def _write_all(self) -> bool:
        """Everything that waits; True when the writer was closed."""
        while True:
            if self._answer():
                return True
            call = self._waiting.take()
            if call is None:
                self._flush_if_due()
                return False
            began = time.monotonic()
            with self._using:
                self._make(call)
            self._call_s += (time.monotonic() - began - self._call_s) / PACE_CALLS
            self._flush_if_due()
            time.sleep(0)  # the interpreter is the training thread's after every call, not after 5 ms

    def _answer(self) -> bool:
        """Whoever asked is told when all that was logged before is written; True when the writer was closed."""
        while self._asked and self._waiting.oldest > self._asked[0].after:
            asked = self._asked.popleft()
            with self._using:
                self._flush_now()
                if asked.closing:
                    self._guarded(getattr(self._writer, "close", None) or getattr(self._writer, "finish", None))
            asked.done.set()
            if asked.closing:
                return True
        return False

    def _make(self, call: QueuedCall) -> None:
        method = self._writer if call.name == "__call__" else getattr(self._writer, call.name)
        self._dirty = True
        self._guarded(lambda: method(*to_host(call.args), **to_host(dict(call.kwargs))))

    def _flush_if_due(self) -> None:
        asked = self._flush_asked
        if (asked is not self._flush_made and self._waiting.oldest > asked.after) or (
            self._dirty and time.monotonic() - self._flushed_s >= self._flush_every_s
        ):
            with self._using:
                self._flush_now()

    def _flush_now(self) -> None:
        if self._waiting.oldest > self._flush_asked.after:
            self._flush_made = self._flush_asked
        self._dirty, began = False, time.monotonic()
        self._guarded(self._flush_writer)
        self._flushed_s = time.monotonic()
        self._flush_s = self._flushed_s - began

    def _guarded(self, call: Callable[[], object] | None) -> None:
        if call is None:
            return
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - whatever a writer raises, training goes on
            self.failed += 1
            if self.error is None:
                self.error = error
                print_message(
                    f"the log of {_name(self._writer)} fails: {_error_text(error)}; training continues (shown once)"
                )

    # ------------------------------------------------------------------------------------------------ what is said

    def _say_behind(self) -> None:
        behind_s = self._waiting.oldest_s()
        self._say_behind_after_ns = REPEAT_FACTOR * behind_s * 1e9
        thinned = f", {self.left_out} values skipped" if self.left_out else ""
        print_message(
            f"the log of {_name(self._writer)} is {behind_s:.0f} s behind, {len(self._waiting)} calls wait{thinned}: "
            f"its storage is slow; log less, or to a faster path. Training does not wait for it."
        )

    def _say_the_end(self, written: bool, limit_s: float) -> None:
        if not written:
            print_message(
                f"{len(self._waiting)} calls of {_name(self._writer)} were not written within {limit_s:g} s: "
                f"its storage does not answer"
            )
        elif self.left_out or self.failed:
            left_out = f"{self.left_out} values were skipped because the log was behind" if self.left_out else ""
            failed = f"{self.failed} calls failed, first with {_error_text(self.error)}" if self.failed else ""
            print_message(f"the log of {_name(self._writer)}: {'; '.join(filter(None, (left_out, failed)))}")


class _FlushRequest:
    """Somebody waits until all calls up to number ``after`` are made."""

    def __init__(self, after: int, closing: bool) -> None:
        self.after, self.closing = after, closing
        self.done = threading.Event()


_live: set[BackgroundWriter] = set()
"""Writers that are not closed: what waits in them is written before the end, whoever still holds them."""


@atexit.register
def _at_exit() -> None:
    """The program ends, in order or by an exception."""
    for writer in list(_live):
        writer.before_the_end(CLOSE_S)


def _place_of(parameter: str, method: Callable[..., Any]) -> int | None:
    """At which place ``method`` takes ``parameter``; None where it does not."""
    with suppress(TypeError, ValueError):
        names = list(inspect.signature(method).parameters)
        return names.index(parameter) if parameter in names else None
    return None


def _name(writer: object) -> str:
    return getattr(writer, "__name__", None) or type(writer).__name__


def _error_text(error: BaseException | None) -> str:
    return "" if error is None else exception_text(error, 300)
