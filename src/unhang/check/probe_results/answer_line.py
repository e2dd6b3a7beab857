"""The one line a probe process answers with, and how it is found among what libraries print."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from unhang.check.probe_results.probe_results import ProbeResult

LINE_MARK = "unhang-probe "


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What was probed, or why nothing could be."""

    probed: ProbeResult | None = None
    refused: str = ""


def answer_line(probed: ProbeResult) -> str:
    """The line for ``probed``, on a line of its own whatever was printed before."""
    return f"\n{LINE_MARK}{msgspec.json.encode(ProbeAnswer(probed)).decode()}\n"


def refusal_line(reason: str) -> str:
    """The line that says why there is no probe."""
    return f"\n{LINE_MARK}{msgspec.json.encode(ProbeAnswer(refused=reason)).decode()}\n"


def find_answer(text: str) -> ProbeAnswer | None:
    """The last answer in what a probe process printed; None when there is none, or one of another version."""
    lines = [line for line in text.splitlines() if line.startswith(LINE_MARK)]
    if not lines:
        return None
    try:
        return msgspec.json.decode(lines[-1].removeprefix(LINE_MARK), type=ProbeAnswer)
    except msgspec.MsgspecError:
        return None
