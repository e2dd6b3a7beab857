"""The files of templates that are shipped: ``src/unhang/knowledge/templates/*.tsv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from scripts.harvest.classes import LEFT_OUT, Correction, Verdict, verdict_of
from scripts.harvest.messages_in_libraries import PRINTED
from scripts.harvest.messages_in_python import Message
from scripts.harvest.programs import Program
from scripts.harvest.reading import Found
from unhang.knowledge.templates.template_rows import COLUMNS, FOLDER, NOTHING, literal_pairs

_LOGGED = ("warning", "error", "critical")


@dataclass(frozen=True, slots=True)
class Shipment:
    """What is shipped of one program, and how it came about."""

    program: Program
    text: str
    templates: int
    classes: Counter[str]
    corrected: Counter[Correction] = field(default_factory=Counter)

    @property
    def path(self) -> Path:
        """Where it is shipped."""
        return FOLDER / f"{self.program.name}.tsv"

    def diff(self) -> list[str]:
        """What would change in the file, as lines of a diff; empty where nothing does."""
        old = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        return list(unified_diff(old, self.text.splitlines(), "shipped", "harvested", n=0, lineterm=""))


def shipment_of(program: Program, found: Mapping[str, Found]) -> Shipment:
    """What of ``found`` is shipped: what matters, and what is logged though it does not. What is raised names itself,
    and of what a compiled file holds nothing says that it is ever printed. All have two words side by side, by which
    they are looked for."""
    classes: Counter[str] = Counter()
    corrected: Counter[Correction] = Counter()
    known: dict[str, Verdict] = {}
    for template in sorted(found):
        verdict, correction = verdict_of(program.name, found[template].message)
        if verdict.kind != LEFT_OUT:
            if not _matters(program, found[template].message, verdict, correction):
                continue
            known[template] = verdict
            classes[verdict.kind] += 1
        corrected.update([] if correction is None else [correction])
    text = "".join(f"{line}\n" for line in (*_head(program), *_rows(found, known)))
    return Shipment(program, text, len(found), classes, corrected)


def _matters(program: Program, message: Message, verdict: Verdict, correction: Correction | None) -> bool:
    if message.level == PRINTED and not any(word in message.template for word in program.about):
        return False
    matters = verdict.kind != NOTHING or message.level in _LOGGED or (verdict.strength and message.level != PRINTED)
    return bool(matters or correction) and any(literal_pairs(message.template))


def _head(program: Program) -> Iterator[str]:
    yield f"# What {program.package} {', '.join(program.releases)} prints; written by python -m scripts.harvest."
    yield f"# Licence: {program.licence}, {program.link}. Columns: {', '.join(COLUMNS)}."


def _rows(found: Mapping[str, Found], known: Mapping[str, Verdict]) -> Iterator[str]:
    common = Counter(pair for template in known for pair in set(literal_pairs(template)))
    for template, verdict in known.items():
        words = min(literal_pairs(template), key=lambda pair: (common[pair], pair))
        message = found[template].message
        said = (verdict.kind, verdict.cause, verdict.strength, message.level, found[template].releases, message.place)
        yield "\t".join((words, *said, template))
