"""transformers' Trainer with our callback: the same losses, and what it does is said; faults before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks
from unhang.inprocess import annotations as marked

pytest.importorskip("transformers")
pytestmark = pytest.mark.timeout(240)


def rows(count: int) -> list[dict[str, list[int]]]:
    return [{"input_ids": [n % 7, 1, 2, 3], "labels": [n % 7, 1, 2, 3]} for n in range(count)]


def trainer(folder: Path, callbacks: list[Any], *, train: int = 16, seen: int = 4, hidden: int = 8, **more: Any) -> Any:
    """A Trainer of a tiny model of random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

    set_seed(7)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=8, n_embd=hidden, n_layer=1, n_head=2))
    settings: dict[str, Any] = {
        "output_dir": str(folder / "out"),
        "per_device_train_batch_size": 2,
        "num_train_epochs": 1,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "save_steps": 2,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
    }
    arguments = TrainingArguments(**settings | more)
    return Trainer(model=model, args=arguments, train_dataset=rows(train), eval_dataset=rows(seen), callbacks=callbacks)


def trained(made: Any) -> list[Any]:
    """Every value that was logged and does not tell a time, then the weights."""
    made.train()
    values = [
        {name: value for name, value in line.items() if "second" not in name and "runtime" not in name}
        for line in made.state.log_history
    ]
    return [*values, *(weight.tolist() for weight in made.model.parameters())]


def both_ways(folder: Path) -> dict[str, Any]:
    """Trained without us, with us, and with its log written in the background."""
    from unhang.integrations.transformers import UnhangCallback, background_logs

    plain = trained(trainer(folder, []))
    marked.reset_annotations()
    guarded = trained(trainer(folder, [UnhangCallback()]))
    said = {name: spent.times for name, spent in marked.spent().items()}
    steps = marked.steps()[0]
    logged = trainer(folder, [UnhangCallback()], report_to=["tensorboard"])
    background_logs(logged)
    return {
        "same": plain == guarded == trained(logged),
        "steps": steps,
        "said": said,
        "open": bool(marked._current.marks),
        "events": sorted(path.stat().st_size for path in (folder / "out" / "runs").rglob("events*")),
    }


def faults(rank: int, folder: Path) -> dict[str, str]:
    """What each fault of rank 1 is told as, and the step it was told at."""
    from unhang.errors import GuardError
    from unhang.integrations.transformers import UnhangCallback

    said = {}
    for name, more in {
        "rows": {"train": 20 if rank == 1 else 16},
        "arguments": {"gradient_accumulation_steps": 1 + rank},
        "parameters": {"hidden": 8 + 8 * rank},
    }.items():
        made = None
        try:
            made = trainer(folder, [UnhangCallback()], **more)
            made.train()
        except GuardError as error:
            step = made.state.global_step if made is not None else 0
            said[name] = f"{type(error).__name__} at step {step}: {error}"
    return said


def everything(rank: int, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    return both_ways(folder), faults(rank, folder)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """What both ranks found, from one start."""
    return [outcome.get() for outcome in run_ranks(everything, tmp_path_factory.mktemp("job"), limit_s=200)]


@pytest.mark.job
def test_it_trains_as_without_us_and_says_what_it_does(ended: list[tuple[dict[str, Any], dict[str, str]]]) -> None:
    for rank, (found, _) in enumerate(ended):
        assert found["same"]
        assert found["steps"] == 4
        assert found["said"]["evaluation"] == 2
        assert found["said"]["save"] == 2
        assert found["said"]["logging"] >= 4
        assert not found["open"]
        if rank == 0:
            assert found["events"]
            assert min(found["events"]) > 500


@pytest.mark.job
def test_what_differs_is_named_before_the_first_step(ended: list[tuple[dict[str, Any], dict[str, str]]]) -> None:
    for _, said in ended:
        assert all(text.startswith("RanksDiffer at step 0: ") for text in said.values())
        assert "batches per epoch of training" in said["rows"]
        assert "4 on rank 0, 5 on rank 1" in said["rows"]
        assert "training arguments['gradient_accumulation_steps']: 1 on rank 0, 2 on rank 1" in said["arguments"]
        assert "parameters of the model['" in said["parameters"]


def only_rank_0_evaluates(rank: int, folder: Path) -> None:
    from transformers import TrainerCallback

    from unhang.integrations.transformers import UnhangCallback

    class OnTheFirst(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_evaluate = rank == 0 and state.global_step == 3

    trainer(folder, [OnTheFirst(), UnhangCallback(patience_s=3)], eval_strategy="no").train()


@pytest.mark.job
@pytest.mark.live
def test_an_evaluation_that_only_one_rank_begins_is_an_error(tmp_path: Path) -> None:
    first, _ = run_ranks(only_rank_0_evaluates, tmp_path, until=0, limit_s=120)

    assert first.error == "RanksMissing"
    assert "together('evaluation')" in first.message
    assert first.attributes["ranks"] == (1,)


@pytest.mark.live
def test_alone_it_does_nothing_but_mark(tmp_path: Path) -> None:
    from unhang.integrations.transformers import UnhangCallback

    plain = trained(trainer(tmp_path, []))
    marked.reset_annotations()
    guarded = trained(trainer(tmp_path, [UnhangCallback()]))

    assert plain == guarded
    assert marked.steps()[0] == 8
    assert marked.spent()["evaluation"].times == 4
    marked.reset_annotations()
