"""The training loop waits until its log is written.

What happens: ``writer.flush()`` in the loop returns when the log is on its storage. A TensorBoard writer has a thread
of its own, and flushes every two minutes by itself; this call takes that away.

Why it hangs: only one rank writes, the others wait for it in their next collective. Where the storage writes the whole
file again (object stores, some mounts), every step takes longer than the last, until a limit is passed.

Example: ``self.writer.flush()`` after the scalars and histograms of every step, with ``log_dir`` on ``s3://``.

Fix: no flush in the loop; ``unhang.BackgroundWriter``; fewer and leaner values.

Certain when: never; how often it is called and how fast the storage is are not known.

Possible when: the call stands in a loop, or in a function that is not the end of the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.wording.log_writing_remedies import log_remedies
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, Phase, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.patterns.log_flushes import LogFlush, log_flushes
from unhang.program.program_source import ProgramSource
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each such call."""
    program = here.found(ProgramSource)
    for source in program.files if program is not None else ():
        lines = source.text.splitlines()
        for one in log_flushes(source):
            yield _finding(one, lines[one.line - 1].strip())


def _finding(one: LogFlush, text: str) -> Answer:
    return risk(
        CHECK,
        f"{one.path}:{one.line}",
        Cause.SINGLE_RANK_WORK,
        say("{writer}.flush() waits until the log is written; all ranks wait with it", writer=one.writer),
        severity=Severity.SLOWS,
        certainty=Certainty.POSSIBLE,
        phase=Phase.LOG,
        where=Where(one.path, one.line, one.function),
        because=(say("{made} has a thread of its own that flushes every 120 s", made=one.made),),
        evidence=(Evidence(Source(one.path, one.line), text),),
        remedies=log_remedies(),
    )
