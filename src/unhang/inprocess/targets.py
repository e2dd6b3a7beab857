"""The former name of :mod:`unhang.inprocess.patched_functions`: the documentation said to call ``restore`` by it."""

from __future__ import annotations

from warnings import warn

from unhang.inprocess.patched_functions import restore

__all__ = ["restore"]

warn("unhang.inprocess.targets is called unhang.inprocess.patched_functions now", DeprecationWarning, stacklevel=2)
