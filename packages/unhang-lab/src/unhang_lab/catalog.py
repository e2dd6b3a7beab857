"""The cases of the lab, as ``catalog.toml`` has them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import tomli

from unhang.errors import UsageError
from unhang_lab.lab_case import LabCase

CASES = msgspec.convert(
    tomli.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))["case"], tuple[LabCase, ...]
)


def find_case(name: str) -> LabCase:
    """The case of that name.

    Raises:
        UsageError: there is none; the message names near ones.
    """
    for case in CASES:
        if case.name == name.replace("_", "-").lower():
            return case
    raise UsageError(f"There is no lab case {name!r}.", next_step="unhang lab list")
