"""What was written, for people and as JSON, with the lines to put into the training command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text as Styled

from unhang import __version__
from unhang.report.language import translate
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.sentences import Text, say
from unhang_reshard.reshard import SCHEMA, Resharded
from unhang_reshard.samples import FAULTS, Fault
from unhang_reshard.shard_sizes import EvenSizes
from unhang_reshard.survey import LEFT_OUT, fault_counts

LOOP_LINE = "for batch in unhang.even_batches(loader):"


def to_document(done: Resharded, *, lang: str = "en") -> dict[str, Any]:
    """The object of ``--format json``."""
    sizes = done.even
    return {
        "schema": SCHEMA,
        "unhang": __version__,
        "lang": lang,
        "folder": str(done.folder),
        "shards": sizes.shards,
        "per_shard": sizes.per_shard,
        "samples": sizes.written,
        "good": sizes.samples,
        "left_out": {
            fault: {
                "count": count,
                "lines": done.survey.firsts.get(fault, []),
                "because": translate(FAULTS[fault], lang),
            }
            for fault, count in fault_counts(done.survey)
        },
        "left_out_to_be_even": sizes.left_out,
        "repeated_to_be_even": sizes.repeated,
        "changed": done.changed,
        "even_for_ranks": list(sizes.even_for),
        "workers": sizes.workers,
        "went_on": done.went_on,
        "arguments": list(training_arguments(done)),
        "loop": LOOP_LINE,
    }


def training_arguments(done: Resharded) -> tuple[str, str]:
    """The two lines of the training command, as OpenCLIP and its relatives have them."""
    last = done.even.shards - 1
    shards = f"{done.folder.absolute()}/shard-{{000000..{last:06d}}}.tar"
    return (
        f"--dataset-type webdataset --train-data '{shards}'",
        f"--train-num-samples {done.even.written} --workers {done.even.workers}",
    )


def reshard_sheet(done: Resharded, width: int, lang: str = "en") -> TextLayout:
    """What was written, what stayed out and why, and what to do with it."""
    sheet, voice, sizes = TextLayout(width), Localizer(lang, Redactor()), done.even
    head = say(
        "{shards} equal shards of {each} samples are in {folder}",
        shards=sizes.shards,
        each=sizes.per_shard,
        folder=done.folder,
    )
    sheet.paragraph(Styled(voice.sentence(head), "bold green"), indent=0)
    for text in _summary_lines(done, sizes):
        sheet.paragraph(voice.sentence(text), lead="• ")
    sheet.heading(voice.say(say("In the training command")))
    for line in training_arguments(done):
        sheet.lines.append(Styled("  " + line))
    sheet.heading(voice.say(say("In the training loop, in case a rank still ends early")))
    sheet.lines.append(Styled("  " + LOOP_LINE))
    return sheet


def _summary_lines(done: Resharded, sizes: EvenSizes) -> list[Text]:
    found = done.survey
    texts = [
        say(
            "each of {ranks} ranks with {workers} workers reads {shards} shards, {samples} samples",
            ranks=" / ".join(map(str, sizes.ranks)),
            workers=sizes.workers,
            shards=" / ".join(str(sizes.shards // n) for n in sizes.ranks),
            samples=" / ".join(str(sizes.written // n) for n in sizes.ranks),
        ),
        say("equal for {sizes} ranks too", sizes=_numbers(sizes.even_for)),
    ]
    texts += [_fault(fault, count, found.firsts.get(fault, [])) for fault, count in fault_counts(found)]
    if found.left_out:
        texts.append(say("{file} lists every sample that was left out, with its line", file=done.folder / LEFT_OUT))
    if sizes.left_out:
        texts.append(
            say(
                "good samples left out so that all ranks get the same number: {count}; --when-uneven repeat keeps them",
                count=sizes.left_out,
            )
        )
    if sizes.repeated:
        texts.append(
            say(
                "samples repeated so that all ranks get the same number: {count}; --when-uneven drop "
                "leaves a few out instead",
                count=sizes.repeated,
            )
        )
    if done.changed:
        texts.append(
            say(
                "{count} samples could no longer be read when they were written; other samples replace them",
                count=done.changed,
            )
        )
    if done.went_on:
        texts.append(say("resumed the work of an earlier call"))
    return texts


def _fault(fault: Fault, count: int, lines: Sequence[int]) -> Text:
    return say(
        "{count} left out: {why} (line {lines})",
        count=count,
        why=FAULTS[fault],
        lines=", ".join(map(str, lines)) + (", …" if count > len(lines) else ""),
    )


def _numbers(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers]
    return ", ".join(shown if len(shown) <= 10 else [*shown[:8], "…", shown[-1]])
