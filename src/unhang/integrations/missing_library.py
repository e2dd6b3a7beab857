"""What is said where the library of an integration is not installed."""

from __future__ import annotations

from unhang.errors import MissingExtra


def missing_library_error(module: str, library: str, install: str, error: ImportError) -> MissingExtra:
    """The error for ``module``, which needs ``library``; ``install`` is what pip takes."""
    return MissingExtra(
        f"{module} needs {library}, which cannot be imported here ({error}): pip install {install}",
        next_step=f"pip install {install}",
    )
