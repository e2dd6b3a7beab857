"""The program does not come to its first step.

What happens: run as it is planned, the command ends, or a rank ends, before the first optimizer step.

Why it hangs: a rank that ends early leaves the others waiting in their first collective until the limit.

Example: one rank filters all of its examples away and has no batch; an import fails on one node.

Fix: what the last lines of the output say.

Certain when: the command ended with an error.

Possible when: never; a program that is only slow is a question left open.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK
from unhang.check.sameness.sameness import DryRun
from unhang.findings import Cause, Certainty, Evidence, Finding, NotChecked, PassedCheck, Remedy, RemedyKind, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch
from unhang.sentences import Text, say


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge how the dry run of this node ended."""
    run, launch = here.found(DryRun), here.found(Launch)
    what = say("Whether every rank has the same data, number of steps and random state")
    if run is None:
        if launch is not None and launch.program:
            because = say("only running the program up to its first step tells")
            yield NotChecked(what, because, "unhang check --dry-run -- CMD", check=CHECK)
        return
    early = tuple(start.rank for start in run.ranks if start.stage == "ended")
    if run.ended == "steps":
        yield PassedCheck(CHECK, say("the program comes to its first step ({count} ranks)", count=len(run.ranks)))
    elif run.code not in (0, None):
        yield _failed(run)
    elif early and len(early) < len(run.ranks):
        yield _left(run, early)
    else:
        because = run.because or say("no optimizer step was seen before the command ended")
        yield NotChecked(what, because, "unhang check --dry-run --dry-run-limit 1800 -- CMD", check=CHECK)


def _failed(run: DryRun) -> Finding:
    last = run.last_words[-1] if run.last_words else ""
    return risk(
        CHECK,
        "first step",
        Cause.RANK_CRASHED,
        say("The command ends with exit code {code} before its first optimizer step", code=run.code),
        certainty=Certainty.CERTAIN,
        because=(Text("{line}", {"line": last}),) if last else (),
        evidence=tuple(Evidence(Source("output", number), line) for number, line in enumerate(run.last_words, 1)),
        remedies=(_remedy(say("Mend what the output names first")),),
    )


def _left(run: DryRun, early: tuple[int, ...]) -> Finding:
    return risk(
        CHECK,
        "first step",
        Cause.UNEVEN_DATA,
        say("{ranks:who} {ranks:ends|end} without a step while others train", ranks=early),
        ranks=early,
        evidence=tuple(Evidence(Source("output", number), line) for number, line in enumerate(run.last_words, 1)),
        remedies=(_remedy(say("Give every rank at least one batch")),),
    )


def _remedy(title: Text) -> Remedy:
    return Remedy(title, RemedyKind.CODE, Text(""), say("none"), say("unhang check --dry-run -- CMD"))
