"""Every detector: the modules of ``causes`` that name a cause, in the order of their names."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from unhang import causes
from unhang.rules.rule import Rule


def _rule(module: ModuleType) -> Rule:
    return Rule(module.__name__.rsplit(".", 1)[-1], module.CAUSE, module.check, module.__doc__ or "")


ALL_RULES: tuple[Rule, ...] = tuple(
    _rule(import_module(f"unhang.causes.{name}"))
    for name in sorted(found.name for found in pkgutil.iter_modules(causes.__path__))
)
