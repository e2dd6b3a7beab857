"""Whose model is another one, from the numbers DDP prints."""

from __future__ import annotations

from unhang.facts.logs.logged_values import outlier_models


def test_the_minority_built_another_model() -> None:
    assert outlier_models({0: 6, 1: 6, 2: 8}) == (2,)


def test_two_that_differ_are_both_named() -> None:
    assert outlier_models({0: 6, 1: 8}) == (0, 1)


def test_equal_models_are_no_finding() -> None:
    assert outlier_models({0: 6, 1: 6}) == ()
    assert outlier_models({}) == ()
