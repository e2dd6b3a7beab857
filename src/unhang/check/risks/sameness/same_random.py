"""Random states are wrong for what is drawn from them.

What happens: ranks have different random states where the program splits its data with them, or equal ones where
dropout and augmentation draw.

Why it hangs: a split drawn from different states leaves each rank another number of batches. Equal states hang
nothing; all ranks only drop and distort alike.

Example: ``random.shuffle(files)`` before the files are dealt out, and no ``random.seed`` anywhere.

Fix: one seed for what all ranks must agree on, seed + rank for what they must not.

Certain when: never.

Possible when: the program draws without a seed and the states differ, though the loaders are of one length this time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK
from unhang.check.sameness.sameness import RankStart, starts_of
from unhang.findings import Cause, Certainty, Finding, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence.unseeded_splits import unseeded_splits
from unhang.sentences import say


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Judge the states before the first step."""
    starts = starts_of(situations)
    if len(starts) < 2:
        return
    program = next((found for s in situations if (found := s.found(ProgramSource)) is not None), None)
    wrong = False
    for file, split in unseeded_splits(program.files if program is not None else ()):
        generator = split.draws_from
        if generator and _differs(starts, generator) and _even(starts):
            wrong = True
            yield _differing(f"{file.path}:{split.line}", split.call, generator)
    if starts[0].random.get("step", {}).get("torch") and not _differs(starts, "torch"):
        wrong = True
        yield _alike()
    if not wrong:
        yield PassedCheck(CHECK, say("random states fit what is drawn from them"))


def _differs(starts: Sequence[RankStart], generator: str) -> bool:
    return len({start.random.get("step", start.random.get("data", {})).get(generator, "") for start in starts}) > 1


def _even(starts: Sequence[RankStart]) -> bool:
    """The loaders are of one length: otherwise that is said already."""
    return len({tuple(loader.steps for loader in start.loaders if loader.read is not None) for start in starts}) == 1


def _differing(place: str, call: str, generator: str) -> Finding:
    return risk(
        CHECK,
        place,
        Cause.UNEVEN_DATA,
        say("{call} draws from {generator}, whose state differs between ranks", call=call, generator=generator),
        certainty=Certainty.POSSIBLE,
        because=(say("the data loaders are of one length this time; another run may draw otherwise"),),
        remedies=(
            Remedy(
                say("Give it a seed that is the same on every rank"),
                RemedyKind.CODE,
                say("random.seed(42), numpy.random.seed(42), torch.manual_seed(42) before it, or a seed in the call"),
                say("none"),
                say("unhang check --dry-run -- CMD"),
            ),
        ),
    )


def _alike() -> Finding:
    return risk(
        CHECK,
        "torch",
        Cause.UNEVEN_DATA,
        say("Dropout and augmentation would draw the same numbers on every rank"),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        remedies=(
            Remedy(
                say("Seed with the rank once the model is built"),
                RemedyKind.CODE,
                say("torch.manual_seed(42 + rank) after the model and the split"),
                say("none"),
                say("unhang check --dry-run -- CMD"),
            ),
        ),
    )
