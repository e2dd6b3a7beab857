"""The one line a probe process answers with, and how it is found among what libraries print."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from unhang.check.probe_results.probe_results import Probed

MARK = "unhang-probe "


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What was probed, or why nothing could be."""

    probed: Probed | None = None
    refused: str = ""


def answer(probed: Probed) -> str:
    """The line for ``probed``, on a line of its own whatever was printed before."""
    return f"\n{MARK}{msgspec.json.encode(ProbeAnswer(probed)).decode()}\n"


def refusal(reason: str) -> str:
    """The line that says why there is no probe."""
    return f"\n{MARK}{msgspec.json.encode(ProbeAnswer(refused=reason)).decode()}\n"


def answer_in(text: str) -> ProbeAnswer | None:
    """The last answer in what a probe process printed; None when there is none, or one of another version."""
    lines = [line for line in text.splitlines() if line.startswith(MARK)]
    if not lines:
        return None
    try:
        return msgspec.json.decode(lines[-1].removeprefix(MARK), type=ProbeAnswer)
    except msgspec.MsgspecError:
        return None
