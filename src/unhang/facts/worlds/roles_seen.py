"""What the programs do whose lines were read."""

from __future__ import annotations

from unhang.facts.model import Facts, once
from unhang.knowledge.worlds.roles import Role, program_row


@once
def roles_seen(facts: Facts) -> frozenset[Role]:
    """By the programs that their last lines and exceptions name; empty in a job of trainers that no prefix names."""
    programs = {line.program for log in facts.logs for line in log.last_lines} - {""}
    programs |= {raised.program for raised in facts.tracebacks} - {""}
    return frozenset(row.role for program in programs if (row := program_row(program)) is not None)


def is_of_engines(facts: Facts) -> bool:
    """Engines that generate or serve printed it, and no trainer."""
    seen = roles_seen(facts)
    return bool(seen & {"server", "rollout"}) and "trainer" not in seen
