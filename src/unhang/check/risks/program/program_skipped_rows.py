"""Each rank reads rows of its own and skips those that are broken.

What happens: the rows are dealt out by rank, and a row that cannot be read is left out by the rank that has it.

Why it hangs: broken rows are not spread evenly, so the ranks have different numbers of batches; the one with the fewest
leaves the loop first, and the others wait for it in a collective.

Example: ``for row in islice(rows, rank, None, world_size)`` with ``except OSError: continue``.

Fix: leave the broken rows out before they are dealt out (``unhang reshard`` writes equal shards), and let all ranks
leave the loop together (``unhang.even_batches``).

Certain when: never; there may be no broken row, or the number of steps may be fixed elsewhere.

Possible when: a generator both deals out by rank and goes on without a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, Remedy, RemedyKind, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence.data_loading_code import SkippedRows, skipped_rows
from unhang.program.settings.job_values import world_size_of
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each such generator, unless the loops are guarded already."""
    program = here.found(ProgramSource)
    if program is None or any("even_batches(" in source.text for source in program.files):
        return
    launch = here.found(Launch)
    ranks = (launch.processes if launch is not None else None) or world_size_of(here)
    for source in program.files:
        lines = source.text.splitlines()
        for found in skipped_rows(source):
            yield _finding(found, lines, ranks)


def _finding(found: SkippedRows, lines: list[str], ranks: int | None) -> Answer:
    return risk(
        CHECK,
        f"{found.path}:{found.line}",
        Cause.UNEVEN_DATA,
        say(
            "{function} deals rows out by rank and skips some: ranks get different numbers of batches",
            function=found.function,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.STOPS,
        where=Where(found.path, found.line, found.function),
        because=(
            say(
                "line {dealt} gives each rank its own rows, line {line} goes on without one",
                dealt=found.dealt_line,
                line=found.line,
            ),
        ),
        evidence=tuple(
            Evidence(Source(found.path, line), lines[line - 1].strip()) for line in (found.dealt_line, found.line)
        ),
        remedies=(
            Remedy(
                say("Leave the broken rows out before they are dealt out"),
                RemedyKind.CONFIG,
                say("unhang reshard DATA --to webdataset --ranks {ranks}", ranks=ranks or "N"),
                say("the data is written once more"),
                say("each rank reads the same number of shards and samples: the manifest beside them says how many"),
            ),
            Remedy(
                say("Stop together when the first rank runs out"),
                RemedyKind.CODE,
                say("for batch in unhang.even_batches(loader): in the place of the loop over the loader"),
                say("batches that only some ranks have are not used"),
                say("all ranks leave the loop at the same step"),
            ),
        ),
    )
