"""Every risk, in one list that a test compares with the folder."""

from __future__ import annotations

from types import ModuleType

from unhang.rules.risks import shared_memory
from unhang.rules.risks.risk import Risk


def _risk(module: ModuleType) -> Risk:
    return Risk(
        module.__name__.rsplit(".", 1)[-1],
        module.CHECK,
        module.__doc__ or "",
        getattr(module, "ask", None),
        getattr(module, "compare", None),
    )


ALL_RISKS: tuple[Risk, ...] = tuple(_risk(module) for module in (shared_memory,))
