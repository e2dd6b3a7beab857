"""``Trainer(callbacks=[UnhangCallback()])``: phases, steps and checks for ``lightning.pytorch``."""

from __future__ import annotations

from unhang.integrations.lightning_guards import LightningGuards
from unhang.integrations.missing_library import missing_library_error

try:
    from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise missing_library_error(__name__, "lightning", "lightning", error) from error


class UnhangCallback(LightningGuards, Callback):  # type: ignore[misc]
    """The guards of unhang in a Trainer's callbacks; see :class:`LightningGuards` for the arguments."""
