"""``Trainer(..., callbacks=[UnhangCallback()])``: phases, steps and checks for transformers' Trainer."""

# ruff: noqa: ARG002 - the names of the arguments are those of TrainerCallback

from __future__ import annotations

from typing import Any

from unhang.guards.background_writer import BackgroundWriter
from unhang.guards.phases import step
from unhang.integrations.marks import ExclusivePhase
from unhang.integrations.missing_library import missing_library_error
from unhang.integrations.same_start import (
    PATIENCE_S,
    has_other_ranks,
    same_batches,
    same_parameters,
    wait_for_all_ranks,
)
from unhang.integrations.same_start import same_settings as compare_settings

try:
    from transformers import TrainerCallback
    from transformers.integrations import TensorBoardCallback, WandbCallback
except ImportError as error:
    raise missing_library_error(__name__, "transformers", "transformers", error) from error

OF_A_RANK = (
    *("output_dir", "logging_dir", "run_name", "report_to", "disable_tqdm", "log_level", "log_level_replica"),
    *("hub_token", "push_to_hub", "local_rank", "dataloader_num_workers", "project", "trackio_space_id"),
)
"""Arguments that may differ between ranks: they change no collective."""
EVALUATION, SAVE, LOGGING = "evaluation", "save", "logging"
_SHARDED = ("FSDP", "DEEPSPEED", "MEGATRON_LM")


class UnhangCallback(TrainerCallback):  # type: ignore[misc]
    """Put it last: ``Trainer(..., callbacks=[..., UnhangCallback()])``, on every rank.

    It marks evaluation, saving and logging for ``unhang run``, counts steps, and before the first step compares the
    arguments, the parameters of the model and the batches of an epoch over the ranks. Evaluations, and saves of a
    sharded model, begin when every rank is there. Results are what they were without it.

    Args:
        check: compare before the first step.
        ignore: names of training arguments that may differ by rank.
        evaluation_s: how long an evaluation takes at most when all is well, in seconds.
        save_s: the same for saving.
        patience_s: so far apart ranks may come, in seconds.

    Raises (from ``Trainer`` itself):
        RanksDiffer: what was compared is not the same.
        RanksMissing: some ranks do not come to an evaluation or a sharded save.
    """

    def __init__(
        self,
        *,
        check: bool = True,
        ignore: tuple[str, ...] = (),
        evaluation_s: float | None = None,
        save_s: float | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._check, self._ignore, self._patience_s = check, (*OF_A_RANK, *ignore), patience_s
        self._compared = False
        self._phase = ExclusivePhase({EVALUATION: evaluation_s, SAVE: save_s})

    # ------------------------------------------------------------------------------------ before the first step

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Compare arguments and parameters while the model is still whole."""
        if model is not None:
            self._compare(args, model)

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, train_dataloader: Any = None, **_: Any
    ) -> None:
        """Compare batches, and what could not be compared before."""
        if model is not None:
            self._compare(args, model)
        if self._check and has_other_ranks():
            same_batches(train_dataloader, timeout_s=self._patience_s)
        if args.eval_on_start:
            self._phase.begin(EVALUATION)

    def _compare(self, args: Any, model: Any) -> None:
        if self._compared or not self._check or not has_other_ranks():
            return
        self._compared = True
        settings = args.to_dict()
        compare_settings(settings, "training arguments", ignore=self._ignore, timeout_s=self._patience_s)
        same_parameters(model, timeout_s=self._patience_s)

    # ------------------------------------------------------------------------------------------------- the loop

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Whatever went on is over: what is done between steps, or after the last."""
        self._phase.end()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step is done; what comes next is known."""
        step()
        self._announce(args, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """What comes after an epoch is known."""
        self._announce(args, control)

    def _announce(self, args: Any, control: Any) -> None:
        """All ranks are here? The Trainer logs first, then evaluates, then saves."""
        if control.should_evaluate:
            wait_for_all_ranks(EVALUATION, timeout_s=self._patience_s)
        if control.should_save and saves_are_collective():
            wait_for_all_ranks(SAVE, timeout_s=self._patience_s)
        if control.should_log:
            self._phase.begin(LOGGING)
        else:
            self._after_logging(control)

    def _after_logging(self, control: Any) -> None:
        if control.should_evaluate:
            self._phase.begin(EVALUATION)
        elif control.should_save:
            self._phase.begin(SAVE)
        else:
            self._phase.end()

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The values are written; evaluations log too."""
        if self._phase.name == LOGGING:
            self._after_logging(control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation that nobody announced, ``trainer.evaluate()``."""
        self._phase.begin(EVALUATION)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Over; a save may follow."""
        self._after_logging(control)

    on_predict = on_save = on_train_end = on_step_begin


def saves_are_collective() -> bool:
    """Whether ranks hold shards, so that a save that only some of them reach waits for the others."""
    from accelerate.state import AcceleratorState

    kind = AcceleratorState._shared_state.get("distributed_type")  # noqa: SLF001 - asking must not make one
    return getattr(kind, "name", "") in _SHARDED


def background_logs(trainer: Any) -> None:
    """Let a thread of its own write what ``trainer`` logs to TensorBoard and W&B; after ``Trainer(...)``."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback):
            _write_in_background(callback)
        elif isinstance(callback, WandbCallback) and callback._wandb is not None:  # noqa: SLF001 - its only handle
            callback._wandb = _background_writer(callback._wandb)  # noqa: SLF001


def _write_in_background(callback: Any) -> None:
    made = callback._SummaryWriter  # noqa: SLF001 - the class it makes its writers of
    if callback.tb_writer is not None:
        callback.tb_writer = _background_writer(callback.tb_writer)
    if made is not None:
        callback._SummaryWriter = lambda *args, **kwargs: BackgroundWriter(made(*args, **kwargs))  # noqa: SLF001


def _background_writer(writer: Any) -> BackgroundWriter:
    return writer if isinstance(writer, BackgroundWriter) else BackgroundWriter(writer)
