"""The places in the program that a finding shows, with the one of a child process that its rank waits for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from unhang.facts.model import Facts
from unhang.facts.stacks.child_processes import awaited_children
from unhang.findings import Finding, Where
from unhang.report.place_heading import headed_places
from unhang.sentences import Text, say


def shown_places(finding: Finding, facts: Facts | None) -> Iterator[tuple[Text, Where]]:
    """Each with its heading; that of the child stands after the place of the rank that waits for it."""
    known = facts.ranks.get(finding.ranks[0]) if facts is not None and finding.ranks else None
    for who, where in headed_places(finding, facts):
        yield who, where
        at = known.activity.where if known is not None and known.activity is not None else None
        if facts is not None and known is not None and where == finding.where == at:
            for child in islice(awaited_children(facts, known), 1):
                yield say("Its child process {pid} is here", pid=child.pid), child.where
