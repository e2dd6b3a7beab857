"""The page of a cause: the docstring of its detector, taken apart."""

from __future__ import annotations

import re
from pathlib import Path

from unhang import causes
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.findings import Cause
from unhang.report.explain.page import ExplanationPage, PageLine
from unhang.sentences import Text, say

_PART = re.compile(r"^(What happens|Why it hangs|Example|Fix|Certain when|Likely when|Possible when): ", re.MULTILINE)
LABELS: dict[str, Text] = {
    "Why it hangs": say("Why it hangs"),
    "Example": say("Example"),
    "Certain when": say("Certain when"),
    "Likely when": say("Likely when"),
    "Possible when": say("Possible when"),
}


def _file_of(cause: Cause) -> str:
    name = f"{cause.value.replace('-', '_')}.py"
    return next(f"unhang/causes/{path.parent.name}/{name}" for path in Path(causes.__file__).parent.glob(f"*/{name}"))


def cause_page(name: str) -> ExplanationPage | None:
    """The page of the cause with this id, written with blanks or underscores as well; None for other words."""
    wanted = "-".join(name.casefold().replace("_", " ").replace("-", " ").split())
    cause = next((cause for cause in Cause if cause.value == wanted), None)
    if cause is None:
        return None
    title, parts = cause_parts(cause)
    details = [(LABELS[label], text) for label, text in parts.items() if label in LABELS]
    return ExplanationPage(
        kind="cause",
        title=cause.value,
        meaning=_given(title, parts.get("What happens", "")),
        do=_given(parts.get("Fix", "")),
        details=tuple(details),
        source=_file_of(cause),
    )


def cause_parts(cause: Cause) -> tuple[str, dict[str, str]]:
    """Title and labelled paragraphs of the cause's own detector; empty when no detector bears the cause's name."""
    name = cause.value.replace("-", "_")
    page = next((detector.page for detector in ALL_DETECTORS if detector.name == name), "")
    head, *rest = _PART.split(page.strip())
    title = _sentence(head.removeprefix(f"{cause.value}: "))
    return title, dict(zip(rest[::2], map(_sentence, rest[1::2]), strict=True))


def _sentence(text: str) -> str:
    spoken = " ".join(text.split())
    return spoken[:1].upper() + spoken[1:]


def _given(*lines: PageLine) -> tuple[PageLine, ...]:
    return tuple(line for line in lines if line)
