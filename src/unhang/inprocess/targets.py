"""The former name of :mod:`unhang.inprocess.patched_functions`, by which the documentation named ``restore``."""

from __future__ import annotations

from warnings import warn

from unhang.inprocess.patched_functions import restore_originals as restore

__all__ = ["restore"]

warn("unhang.inprocess.targets is called unhang.inprocess.patched_functions now", DeprecationWarning, stacklevel=2)
