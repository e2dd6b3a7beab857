"""The data is split or shuffled without a seed.

What happens: every rank draws its own split, and filters leave each with another number of batches.

Why it hangs: the ranks run a different number of steps; one leaves the loop and the others wait in a collective, often
only at the save at the end.

Example: ``dataset.train_test_split(test_size=0.1)`` without ``seed=`` in a job that never calls ``set_seed``.

Fix: give the split a seed, the same on every rank.

Certain when: never; another file may seed the generators.

Possible when: no seed is seen in the program's files, or a function elsewhere seeds with the rank. Likely when nothing
else can seed it: the split itself, or its own function, has the rank in its seed, or nothing seeds at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import ways_in
from unhang.check.risks.risk import Answer, risk
from unhang.evidence.items import SourceFile
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.sentences import Text, say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each split; a shuffle alone changes the order, not the number of steps, and is a note."""
    program = here.found(ProgramSource)
    if program is None:
        return
    ways = ways_in(here)
    found = unseeded_splits(program.files, {one.node for one in ways.launch} if ways is not None else None)
    for source, split in found:
        yield _finding(source, split)
    if not found:
        yield PassedCheck(CHECK, say("no split of the data lacks a seed"))


def _title(split: UnseededSplit) -> Text:
    if split.why == "hash-order":
        return say("Sort it; no seed reaches the order of a set of strings (PYTHONHASHSEED does, set for all ranks)")
    return say("Give it a seed that is the same on every rank")


def _because(split: UnseededSplit) -> Iterator[Text]:
    if split.why == "no-seed" and split.draws_from and split.seeded:
        yield say(
            "{call} draws from the generator of {drawn}, which nothing seeds; seeded are those of {seeded}",
            call=split.call,
            drawn=split.draws_from,
            seeded=", ".join(split.seeded),
        )


def _finding(source: SourceFile, split: UnseededSplit) -> Answer:
    if split.why == "no-seed":
        summary = say("{call} has no seed: every rank may get other data", call=split.call)
    elif split.why == "hash-order":
        summary = say("{call} has another order in every process: every rank may get other data", call=split.call)
    elif not split.settled:
        summary = say(
            "{call} draws from a generator that another function seeds with the rank: every rank may get other data",
            call=split.call,
        )
    else:
        summary = say("{call} is seeded with the rank: every rank gets other data", call=split.call)
    text = source.text.splitlines()[split.line - 1].strip()
    return risk(
        CHECK,
        f"{source.path}:{split.line}",
        Cause.UNEVEN_DATA,
        summary,
        certainty=Certainty.LIKELY if split.splits and split.settled else Certainty.POSSIBLE,
        severity=Severity.STOPS if split.splits else Severity.NOTE,
        where=Where(source.path, split.line, ""),
        because=tuple(_because(split)),
        evidence=(Evidence(Source(source.path, split.line), text),),
        remedies=(
            Remedy(
                _title(split),
                RemedyKind.CODE,
                say("{code}", code=split.with_seed),
                say("none"),
                say("print len(loader) on every rank: one number"),
            ),
        ),
    )
