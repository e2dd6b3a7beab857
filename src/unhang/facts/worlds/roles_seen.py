"""What the programs do whose lines were read."""

from __future__ import annotations

from unhang.facts.model import Facts, once
from unhang.knowledge.libraries import is_engine_file
from unhang.knowledge.worlds.roles import Role, program_row


@once
def roles_seen(facts: Facts) -> frozenset[Role]:
    """By the programs that their last lines and exceptions name; empty in a job of trainers that no prefix names."""
    programs = {line.program for log in facts.logs for line in log.last_lines} - {""}
    programs |= {raised.program for raised in facts.tracebacks} - {""}
    return frozenset(row.role for program in programs if (row := program_row(program)) is not None)


def is_of_engines(facts: Facts) -> bool:
    """Engines that generate or serve printed it or raised in it, and no trainer printed it."""
    seen, files = roles_seen(facts), (frame.file for raised in facts.tracebacks for frame in raised.frames)
    return (bool(seen & {"server", "rollout"}) or any(map(is_engine_file, files))) and "trainer" not in seen
