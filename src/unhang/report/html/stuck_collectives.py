"""Where ranks met and did not get on: different calls at one position, or all joined and none finished."""

from __future__ import annotations

from unhang.facts.model import CallMismatch, Facts
from unhang.report import labels
from unhang.report.html.late_ranks import group_label
from unhang.report.html.timeline import call_label
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say

MAX_SHOWN = 8


def stuck_collectives(facts: Facts, localizer: Localizer) -> list[str]:
    """One sentence for each of the first disagreements and symmetric stalls."""
    spoken = [localizer.line(localizer.say(_mismatch(facts, item, localizer))) for item in facts.mismatches[:MAX_SHOWN]]
    for stall in facts.all_joined_stalls[:MAX_SHOWN]:
        sentence = say(
            "All of {ranks} joined {operation} at position {position} of {group}, and none finished it.",
            ranks=labels.ranks_label(stall.ranks),
            operation=stall.operation,
            position=stall.position,
            group=_group(facts, stall.group),
        )
        spoken.append(localizer.line(localizer.say(sentence)))
    return spoken


def _mismatch(facts: Facts, item: CallMismatch, localizer: Localizer) -> Text:
    sides = sorted(item.calls.items(), key=lambda side: (len(side[1]), side[1]))
    calls = "; ".join(
        f"{localizer.say(labels.ranks_label(ranks))}: {call_label(signature)}" for signature, ranks in sides
    )
    return say(
        "Different calls at position {position} of {group}: {calls}.",
        position=item.position,
        group=_group(facts, item.group),
        calls=calls,
    )


def _group(facts: Facts, name: str) -> str:
    group = facts.groups.get(name)
    return name if group is None else group_label(group)
