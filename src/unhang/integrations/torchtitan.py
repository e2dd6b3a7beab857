"""Overrides for torchtitan's configuration: phases, steps and checks in its Trainer, with no code changed.

``--override.imports
unhang.integrations.torchtitan.steps,unhang.integrations.torchtitan.saves,unhang.integrations.torchtitan.evaluations``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unhang.guards.background_writer import BackgroundWriter
from unhang.guards.phases import phase, step
from unhang.integrations.missing_library import missing_library_error
from unhang.integrations.same_start import has_other_ranks, same_parameters, same_settings, wait_for_all_ranks

try:
    from torchtitan.components.checkpointer import BaseCheckpointManager
    from torchtitan.components.metrics import BaseLogger, MetricsProcessor
    from torchtitan.components.validate import BaseValidator
    from torchtitan.config.override import derive, override
except ImportError as error:
    raise missing_library_error(__name__, "torchtitan", "torchtitan", error) from error

OF_A_RANK = ("dump_folder",)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@override(target=MetricsProcessor.Config, description="unhang: steps, logging, the same start on all ranks")  # type: ignore[untyped-decorator]
def steps(config: Any, *, background_logs: bool = False) -> Any:
    """Count optimizer steps, mark logging, and before the first step compare configuration and parameters over the
    ranks. ``background_logs``: a thread of its own writes to TensorBoard and W&B.

    Raises (in the job): RanksDiffer.
    """
    return _extended(config, _LaterMetrics if background_logs else _Metrics)


@override(target=BaseCheckpointManager.Config, description="unhang: saves are marked and begin together")  # type: ignore[untyped-decorator]
def saves(config: Any) -> Any:
    """Mark saves and loads; a save begins when every rank is there.

    Raises (in the job): RanksMissing.
    """
    return _extended(config, _Checkpoints)


@override(target=BaseValidator.Config, description="unhang: evaluations are marked and begin together")  # type: ignore[untyped-decorator]
def evaluations(config: Any) -> Any:
    """Mark validations; one begins when every rank is there.

    Raises (in the job): RanksMissing.
    """
    return _extended(config, _Validations)


def _extended(config: Any, guards: type) -> Any:
    """The same configuration of a class that has ``guards`` before what it was configured for."""
    owner = config._owner  # noqa: SLF001 - the class a configuration builds

    @dataclass(kw_only=True, slots=True)
    class Config(type(config)):  # type: ignore[misc]
        pass

    made: Any = type(f"Guarded{owner.__name__}", (guards, owner), {"Config": Config, "__module__": owner.__module__})
    return derive(config, made.Config)


def _plain(value: Any) -> Any:
    """``value`` without the addresses of functions, which torchtitan tells as text."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _ADDRESS.sub("", value) if isinstance(value, str) else value


class _Metrics:
    """The Trainer hands it the model and the optimizers before the first step."""

    def __init__(self, config: Any, *, parallel_dims: Any, config_dict: Any = None, **more: Any) -> None:
        if config_dict and has_other_ranks():
            same_settings(_plain(config_dict), "configuration of torchtitan", ignore=OF_A_RANK)
        super().__init__(config, parallel_dims=parallel_dims, config_dict=config_dict, **more)  # type: ignore[call-arg]

    @property
    def optimizers(self) -> Any:
        """The optimizers whose steps are counted."""
        return self._optimizers

    @optimizers.setter
    def optimizers(self, optimizers: Any) -> None:
        self._optimizers = optimizers
        if optimizers is not None:
            optimizers.register_step_post_hook(lambda *_: step())

    @property
    def model_parts(self) -> Any:
        """Parts of the model on this rank (pipeline stages), as TorchTitan's trainer sets them."""
        return self._model_parts

    @model_parts.setter
    def model_parts(self, parts: Any) -> None:
        self._model_parts = parts
        staged = self.parallel_dims.pp_enabled if parts is not None else True  # type: ignore[attr-defined]
        for part in parts if not staged and has_other_ranks() else ():
            same_parameters(part)

    def log(self, *args: Any, **kwargs: Any) -> Any:
        with phase("logging"):
            return super().log(*args, **kwargs)  # type: ignore[misc]

    def log_validation(self, *args: Any, **kwargs: Any) -> Any:
        with phase("logging"):
            return super().log_validation(*args, **kwargs)  # type: ignore[misc]


class _LaterMetrics(_Metrics):
    def _build_metric_logger(self, **settings: Any) -> Any:
        logger = super()._build_metric_logger(**settings)  # type: ignore[misc]
        return logger if type(logger) is BaseLogger else BackgroundWriter(logger)  # a rank that does not log


class _Checkpoints:
    def _save(self, curr_step: int, last_step: bool = False) -> Any:
        if self._should_save(curr_step, last_step):  # type: ignore[attr-defined]
            wait_for_all_ranks("save")
            with phase("save"):
                return super()._save(curr_step, last_step)  # type: ignore[misc]
        return super()._save(curr_step, last_step)  # type: ignore[misc]

    def load(self, *args: Any, **kwargs: Any) -> Any:
        with phase("loading"):
            return super().load(*args, **kwargs)  # type: ignore[misc]


class _Validations:
    def validate(self, *args: Any, **kwargs: Any) -> Any:
        wait_for_all_ranks("evaluation")
        with phase("evaluation"):
            return super().validate(*args, **kwargs)  # type: ignore[misc]
