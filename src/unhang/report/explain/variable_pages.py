"""The page of an environment variable."""

from __future__ import annotations

import re

from unhang.knowledge.job.environment_variables import EnvironmentVariable, variable
from unhang.report.explain.page import ExplanationPage, PageLine
from unhang.sentences import Text, say

_SETTING = re.compile(r"(?:export\s+|set\s+|-e\s+|--env\s+|unset\s+)?([A-Za-z][A-Za-z0-9_]{2,63})(?:\s*=\s*(.*))?$")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off"))
OWNERS = {
    "torch": "PyTorch",
    "nccl": "NCCL",
    "gloo": "Gloo",
    "cuda": "CUDA",
    "slurm": "Slurm",
    "deepspeed": "DeepSpeed",
    "openmpi": "Open MPI",
    "huggingface": "Hugging Face libraries",
    "accelerate": "Accelerate",
    "axolotl": "Axolotl",
    "fabric": "RDMA and fabric libraries",
    "nccl contrib": "NCCL contrib libraries",
}
"""Who reads a variable, as pages call it, in the order of the page of all variables; others are called by their id."""


def variable_page(text: str) -> ExplanationPage | None:
    """The page of ``NAME`` or ``NAME=value``; None when no row knows the name."""
    found = _SETTING.match(text.strip())
    row = variable(found[1]) if found is not None else None
    if found is None or row is None:
        return None
    value = (found[2] or "").strip().strip("'\"")
    return ExplanationPage(
        kind="variable",
        title=row.name,
        meaning=tuple(filter(None, (_support_text(row), row.effect))),
        harmless=say("It changes nothing, whatever its value.") if row.status == "unread" else None,
        do=tuple(_advice(row, value)),
        details=tuple(_details(row)),
        see_also=tuple(name for name in (row.replacement,) if name and variable(name)),
        source=row.source,
        checked=row.checked,
    )


def _support_text(row: EnvironmentVariable) -> Text | None:
    if row.status == "unread" or row.default.startswith("set by "):
        return None  # its effect or its default says it
    owner = OWNERS.get(row.owner, row.owner)
    if row.status == "renamed":
        return say("Renamed in {owner} {until}.", owner=owner, until=row.until)
    if row.status == "removed":
        return say("Removed in {owner} {until}.", owner=owner, until=row.until)
    if row.status == "deprecated":
        return say("Deprecated since {owner} {until}.", owner=owner, until=row.until)
    if not row.documented:
        return say("Read by {owner}; not documented there.", owner=owner)
    return say("Read by {owner}.", owner=owner)


def _advice(row: EnvironmentVariable, value: str) -> list[PageLine]:
    lines: list[PageLine] = []
    if value.lower() in _WORDS and row.owner == "nccl" and row.type.startswith(("int", "bool 0/1")):
        lines.append(say("NCCL reads a number here: {value} counts as 0. Write 1 or 0.", value=value))
    if row.replacement:
        lines.append(say("Use instead: {replacement}", replacement=row.replacement))
    elif row.status in ("removed", "unread"):
        lines.append(say("Remove it, unless the program reads it itself (unhang check -- CMD finds out)."))
    return lines


def _details(row: EnvironmentVariable) -> list[tuple[Text, PageLine]]:
    given: list[tuple[Text, PageLine]] = [
        (say("Values"), row.values),
        (say("Default"), row.default),
        (say("Default by version"), "; ".join(f"{item.since}+: {item.value}" for item in row.defaults)),
        (say("Since"), row.since),
        (say("Cost and risk"), row.cost),
    ]
    details = [(label, line) for label, line in given if line]
    details += [
        (say("Interacts with"), say("{other}: {why}", other=item.other, why=item.why)) for item in row.conflicts
    ]
    if row.guess:
        details.append((say("How sure"), say("name and default are in the source; the effect is a guess from them")))
    elif not row.verified:
        details.append((say("How sure"), say("the effect was not checked in the source")))
    return details
