"""What the callbacks for ``lightning`` and ``pytorch_lightning`` do; those two differ only in the class they extend."""

from __future__ import annotations

from typing import Any

from unhang.guards.background_writer import BackgroundWriter
from unhang.guards.phases import step
from unhang.integrations.marks import ExclusivePhase, mark_method
from unhang.integrations.same_start import PATIENCE_S, has_other_ranks, same_batches, same_parameters, same_settings

EVALUATION = "evaluation"
_COMPARED = (
    *("max_epochs", "max_steps", "accumulate_grad_batches", "gradient_clip_val", "precision", "world_size"),
    *("limit_train_batches", "limit_val_batches", "val_check_interval", "check_val_every_n_epoch"),
    *("num_sanity_val_steps", "use_distributed_sampler", "reload_dataloaders_every_n_epochs"),
)
"""Settings of a Trainer that decide what its ranks do together."""


class LightningGuards:
    """Put it in ``Trainer(callbacks=[...])``, on every rank.

    It marks evaluation and saving for ``unhang run``, counts steps, and before the first step compares the Trainer's
    settings, the module's hyperparameters and parameters and the batches of an epoch over the ranks. A checkpoint
    begins when every rank is there. Results are what they were without it.

    Args:
        check: compare before the first step.
        background_logs: a thread of its own writes what the TensorBoard and W&B loggers log.
        evaluation_s: how long an evaluation takes at most when all is well, in seconds.
        save_s: the same for saving.
        patience_s: so far apart ranks may come, in seconds.

    Raises (from ``Trainer.fit``):
        RanksDiffer: what was compared is not the same.
        RanksMissing: some ranks do not come to a checkpoint.
    """

    def __init__(
        self,
        *,
        check: bool = True,
        background_logs: bool = False,
        evaluation_s: float | None = None,
        save_s: float | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__()
        self._check, self._background, self._save_s, self._patience_s = check, background_logs, save_s, patience_s
        self._phase = ExclusivePhase({EVALUATION: evaluation_s})
        self._steps = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """From here on the trainer's saves are marked; parameters are compared before the strategy wraps them."""
        mark_method(
            *(trainer, "save_checkpoint", "save"),
            meets=lambda: True,  # it ends with a barrier, whatever the strategy
            at_most_s=self._save_s,
            patience_s=self._patience_s,
        )
        if stage == "fit" and self._check and has_other_ranks():
            same_parameters(pl_module, timeout_s=self._patience_s)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Compare parameters again: ``configure_model`` may have made them."""
        if self._background:
            background_logs(trainer)
        if self._check and has_other_ranks():
            same_parameters(pl_module, timeout_s=self._patience_s)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Compare settings and batches."""
        self._steps = trainer.global_step
        if not self._check or not has_other_ranks():
            return
        settings = {name: getattr(trainer, name, None) for name in _COMPARED}
        same_settings(settings, "settings of the Trainer", timeout_s=self._patience_s)
        hparams = dict(getattr(pl_module, "hparams", {}))
        same_settings(hparams, "hyperparameters", timeout_s=self._patience_s)
        loaders = getattr(trainer.fit_loop, "_combined_loader", None)
        for number, loader in enumerate(getattr(loaders, "flattened", None) or [], 1):
            what = "training" if number == 1 else f"training loader {number}"
            same_batches(loader, what, timeout_s=self._patience_s)

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Count a step where the optimizer made one."""
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            step()

    def on_validation_start(self, *_: Any) -> None:
        """An evaluation begins."""
        self._phase.begin(EVALUATION)

    def on_validation_end(self, *_: Any) -> None:
        """It is over."""
        self._phase.end()

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_exception = on_validation_end


def background_logs(trainer: Any) -> None:
    """A thread of its own writes what the TensorBoard and W&B loggers of ``trainer`` log, on the rank that writes."""
    if trainer.global_rank != 0:
        return
    for logger in trainer.loggers:
        if type(logger).__name__ not in ("TensorBoardLogger", "WandbLogger"):
            continue
        writer = logger.experiment
        if not isinstance(writer, BackgroundWriter):
            logger._experiment = BackgroundWriter(writer)  # noqa: SLF001 - what its property returns
