"""Do something right after the program has imported a module, before anybody can use it. Nothing is imported by us."""

from __future__ import annotations

import sys

from unhang.inprocess.internal_errors import log_internal_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

DISTRIBUTED = "torch.distributed.distributed_c10d"


def when_imported(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call ``then`` with the module ``name``: now, where it is there already, else once it has run."""
    module = sys.modules.get(name)
    if module is not None:
        _call(then, module)
    else:
        sys.meta_path.insert(0, _ImportWatcher(name, then))


def stop_watching() -> None:
    """Forget every module that was not imported yet."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _ImportWatcher)]


def _call(then: Callable[[ModuleType], None], module: ModuleType) -> None:
    try:
        then(module)
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        log_internal_error(f"could not follow {module.__name__}", error)


class _ImportWatcher:
    """A finder that finds nothing itself: it notices that the program is about to import one module, and goes."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing, but for the one name: then what the other finders find, prepared to be followed once it ran."""
        if name != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = next((spec for spec in _found(name, path, target) if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _after(spec.loader, self._then)
        return spec


def _found(name: str, path: Sequence[str] | None, target: ModuleType | None) -> Iterator[ModuleSpec | None]:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if find is not None:
            yield find(name, path, target)


def _after(loader: Any, then: Callable[[ModuleType], None]) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        run(module)
        _call(then, module)

    try:
        loader.exec_module = exec_module
    except AttributeError as error:
        log_internal_error("could not follow an import", error)
