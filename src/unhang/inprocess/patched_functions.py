"""What is replaced in the user's process: one tuple, applied when the module is there.

:func:`restore_originals` undoes it.

``faulthandler``'s functions are wrapped as soon as we begin: a program that calls one of them has decided about
faulthandler, and ours stays away. torch is never imported here: a finder notices when the program does.
"""

from __future__ import annotations

import faulthandler
import sys

from unhang.inprocess import crash_ownership
from unhang.inprocess.import_hooks import DISTRIBUTED, stop_watching, when_imported
from unhang.inprocess.internal_errors import log_internal_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

COPIES = {DISTRIBUTED: ("torch.distributed",)}
"""Modules that took over a name before we came (only when we came in through torch)."""


def _around_enable(original: Callable[..., Any]) -> Callable[..., Any]:
    def enable(*args: Any, **kwargs: Any) -> Any:
        crash_ownership.mark_user_owned()
        return original(*args, **kwargs)

    return enable


def _around_is_enabled(original: Callable[..., Any]) -> Callable[..., Any]:
    def is_enabled() -> bool:
        return bool(original()) and not crash_ownership.unhang_reports_crashes

    return is_enabled


def _activation_module() -> ModuleType | None:
    """The part of a rank; None where it cannot be loaded: unhang may be removed or upgraded while a job starts."""
    try:
        from unhang.inprocess import activation as arming
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        log_internal_error("could not arm", error)
        return None
    return arming


def _around_init(original: Callable[..., Any]) -> Callable[..., Any]:
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        arming = _activation_module()
        if arming is None:
            return original(*args, **kwargs)
        arming.on_init_enter(args, kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            arming.on_init_leave()

    return init_process_group


def _around_group(original: Callable[..., Any]) -> Callable[..., Any]:
    def new_group(*args: Any, **kwargs: Any) -> Any:
        arming = _activation_module()
        if arming is None:
            return original(*args, **kwargs)
        arming.before_new_group()  # a program that got hold of init_process_group before us arms here
        made = original(*args, **kwargs)
        arming.after_new_group(made)
        return made

    return new_group


TARGETS: tuple[tuple[str, str, Callable[[Callable[..., Any]], Callable[..., Any]]], ...] = (
    ("faulthandler", "enable", _around_enable),
    ("faulthandler", "disable", _around_enable),
    ("faulthandler", "is_enabled", _around_is_enabled),
    (DISTRIBUTED, "init_process_group", _around_init),
    (DISTRIBUTED, "_new_process_group_helper", _around_group),
)
"""Module, name, and what makes the function that stands in its place and calls it."""

_originals: dict[tuple[str, str], tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _with_metadata(standing_in: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """As functools.wraps, which is not loaded at start-up."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__text_signature__"):
        value = getattr(original, name, None)
        if value is not None:
            setattr(standing_in, name, value)
    standing_in.__dict__.update(getattr(original, "__dict__", {}))
    standing_in.__dict__["__wrapped__"] = original
    return standing_in


def apply_patches(module: ModuleType) -> None:
    """Replace what the tuple names in ``module``; a name this version does not have is left out."""
    for owner, name, around in TARGETS:
        original = getattr(module, name, None)
        if owner != module.__name__ or original is None or (owner, name) in _originals:
            continue
        standing_in = _with_metadata(around(original), original)
        _originals[owner, name] = (original, standing_in)
        _replace(owner, name, original, standing_in)


def restore_originals() -> None:
    """Put every original back where ours still stands. A copy that the program took keeps working, and calls it."""
    for (owner, name), (original, standing_in) in _originals.items():
        _replace(owner, name, standing_in, original)
    _originals.clear()
    stop_watching()


def _replace(owner: str, name: str, old: object, new: object) -> None:
    for place in (owner, *COPIES.get(owner, ())):
        module = sys.modules.get(place)
        if module is not None and getattr(module, name, None) is old:
            setattr(module, name, new)


def watch_imports() -> None:
    """Patch what is there, and the rest when the program imports it."""
    apply_patches(faulthandler)
    when_imported(DISTRIBUTED, apply_patches)
