"""A wrong argument is one clear sentence, at once, on the rank that gave it; never a TypeError from within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import unhang
from unhang.errors import UsageError

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "together without a name": (
        lambda: unhang.together(None),  # type: ignore[arg-type]
        "together(name=…) must be a text such as 'save', not None",
    ),
    "together with an empty one": (
        lambda: unhang.together(" "),
        "together(name=…) must be a text such as 'save', not ' '",
    ),
    "together's limit": (
        lambda: unhang.together("save", timeout_s="60"),  # type: ignore[arg-type]
        "together(timeout_s=…) must be a number of seconds above 0, not '60'",
    ),
    "together's end": (
        lambda: unhang.together("save", finish_s=-1),
        "together(finish_s=…) must be a number of seconds",
    ),
    "a decorator without brackets": (lambda: unhang.rank_zero_first(print), "rank_zero_first(what=…) must be a text"),  # type: ignore[arg-type]
    "rank_zero_first's limit": (
        lambda: unhang.rank_zero_first("tokenisation", timeout_s=float("nan")),
        "rank_zero_first(timeout_s=…) must be a number of seconds above 0, not nan",
    ),
    "phase": (lambda: unhang.phase(None), "phase(name=…) must be a text"),  # type: ignore[arg-type]
    "phase's bound": (lambda: unhang.phase("save", at_most_s="3"), "phase(at_most_s=…) must be a number of seconds"),  # type: ignore[arg-type]
    "even_batches' limit": (
        lambda: unhang.even_batches([1], timeout_s=-1),
        "even_batches(timeout_s=…) must be a number of seconds above 0, not -1",
    ),
    "limits": (lambda: unhang.limits("10"), "limits(init=…) must be a number of seconds above 0, not '10'"),  # type: ignore[arg-type]
    "same_on_all_ranks": (
        lambda: unhang.same_on_all_ranks(1, "x", timeout_s=0),
        "same_on_all_ranks(timeout_s=…) must be a number of seconds above 0, not 0",
    ),
    "no writer": (lambda: unhang.BackgroundWriter(None), "on ranks that do not log, use None itself"),
    "no module": (lambda: unhang.save_together(5, "x.pt"), "takes a module or a state dict, not int"),  # type: ignore[arg-type]
    "no path": (lambda: unhang.save_together({}, None), "save_together(path=…) must be a file name, not None"),  # type: ignore[arg-type]
    "a seed as text": (lambda: unhang.seed_everything("3"), "an integer from 0 to 4294967295, not '3'"),  # type: ignore[arg-type]
    "a seed below 0": (lambda: unhang.seed_everything(-1), "an integer from 0 to 4294967295, not -1"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_a_sentence(wrong: str) -> None:
    call, says = WRONG[wrong]

    with pytest.raises(UsageError) as raised:
        call()

    assert says in str(raised.value)


def test_an_optimizer_beside_a_state_dict_is_not_left_out_silently(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="the optimizer would not be saved"):
        unhang.save_together({"a": 1}, tmp_path / "x.pt", optimizer=object())  # type: ignore[arg-type]

    assert not list(tmp_path.iterdir())


def test_a_seed_of_numpy_is_a_seed() -> None:
    numpy = pytest.importorskip("numpy")

    unhang.seed_everything(numpy.int64(7))

    assert unhang.random_states()["seed_everything"] == "7"
