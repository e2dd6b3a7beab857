"""The local rank given as the rank of the whole job.

What happens: ``init_process_group(rank=local_rank)`` on several nodes.

Why it hangs: on every node the processes claim the ranks 0, 1, 2, …: some are claimed twice, the others never come, and
all wait in the rendezvous.

Example: a worker started with ``worker(rank, local_rank, world_size)`` whose second parameter is called ``rank``.

Fix: give the rank among all nodes.

Certain when: never; several nodes are what the launch says.

Possible when: the argument was followed to the local rank. Likely when the launch names more than one node.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.check.network.network import nodes_of
from unhang.check.risks.program.program_places import quotes, ways_in
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Remedy, RemedyKind, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.data_flow.function_steps import LOCAL, NAMED, RANK
from unhang.program.launch.launch import Launch
from unhang.program.paths.divergent_paths import SourceLine
from unhang.program.program_source import ProgramSource
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each such call, where the job has several nodes."""
    program = here.found(ProgramSource)
    launch = here.found(Launch)
    nodes = nodes_of(here) or (launch.nodes if launch is not None else None)
    ways = ways_in(here) if nodes is not None and nodes > 1 else None
    if program is None or ways is None or nodes is None:
        return
    for one, read in ways.reads.items():
        for call, given, kinds in read.ranks_given:
            if LOCAL in kinds and not kinds & {RANK, NAMED}:
                at = SourceLine(one.file.path, call.lineno, one.full_name, ast.unparse(given))
                yield _finding(at, given, nodes, program)


def _finding(at: SourceLine, given: ast.expr, nodes: int, program: ProgramSource) -> Answer:
    return risk(
        CHECK,
        f"{at.path}:{at.line}",
        Cause.RENDEZVOUS,
        say(
            "init_process_group gets the local rank as rank ({value}): on {nodes} nodes the same ranks are claimed "
            "several times",
            value=at.text,
            nodes=nodes,
        ),
        where=Where(at.path, at.line, at.function),
        because=(say("{value} is the rank on its node, as its callers say or its name", value=at.text),),
        evidence=tuple(quotes(program, (at, SourceLine(at.path, given.lineno, at.function, at.text)))),
        remedies=(
            Remedy(
                say("Give init_process_group the rank among all nodes"),
                RemedyKind.CODE,
                say("rank=int(os.environ['RANK'])"),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
