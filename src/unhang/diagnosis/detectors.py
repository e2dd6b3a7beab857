"""Every detector: the modules of ``causes`` that name a cause, in the order of their names."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from unhang import causes
from unhang.causes.detector import Detector


def _detector(module: ModuleType) -> Detector:
    return Detector(module.__name__.rsplit(".", 1)[-1], module.CAUSE, module.detect, module.__doc__ or "")


def _names() -> Iterator[str]:
    """Modules in the folders of ``causes``; ``wording`` holds what they say alike."""
    for folder in pkgutil.iter_modules(causes.__path__, f"{causes.__name__}."):
        if folder.ispkg and not folder.name.endswith(".wording"):
            inside = import_module(folder.name).__path__
            yield from (found.name for found in pkgutil.iter_modules(inside, f"{folder.name}."))


ALL_DETECTORS: tuple[Detector, ...] = tuple(
    _detector(import_module(name)) for name in sorted(_names(), key=lambda name: name.rsplit(".", 1)[-1])
)
