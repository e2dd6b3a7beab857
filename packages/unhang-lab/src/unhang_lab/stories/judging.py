"""Compare a verdict, as ``--format json`` prints it, with what a story wants of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unhang.findings import Certainty
from unhang.sentences import Text, rank_ranges, say
from unhang_lab.stories.story import ExpectedFinding

Document = Mapping[str, Any]
_ORDER = [one.value for one in (Certainty.POSSIBLE, Certainty.LIKELY, Certainty.CERTAIN)]


def find_mistakes(document: Document, wanted: ExpectedFinding, folder: Path, output: str) -> tuple[Text, ...]:
    """One sentence for each thing the first finding has wrong; empty when it is right.

    Args:
        document: the verdict.
        wanted: what it must say.
        folder: where the job's files are, for the lines.
        output: what the job printed, for the ranks that had the fewest.
    """
    if not document.get("findings"):
        return (_none_found(wanted),)
    found = list(_wrong(document["findings"][0], wanted, folder, output))
    if wanted.status is not None and document["status"] != wanted.status.value:
        found.insert(0, _differs("status", document["status"], wanted.status.value))
    return tuple(found)


def missing_finding(document: Document, wanted: ExpectedFinding, folder: Path) -> tuple[Text, ...]:
    """Why no finding of a ``check`` is the one that is wanted; empty when one is."""
    if wanted.status is not None and document["status"] != wanted.status.value:
        return (_differs("status", document["status"], wanted.status.value),)
    tried = [tuple(_wrong(finding, wanted, folder, "")) for finding in document["findings"]]
    return min(tried, key=len, default=(_none_found(wanted),))


def _none_found(wanted: ExpectedFinding) -> Text:
    return say("there is no finding, it must be {cause}", cause="-" if wanted.cause is None else wanted.cause.value)


def _wrong(finding: Document, wanted: ExpectedFinding, folder: Path, output: str) -> Iterator[Text]:
    if wanted.cause is not None and finding["cause"] != wanted.cause.value:
        yield _differs("cause", finding["cause"], wanted.cause.value)
    if _ORDER.index(finding["certainty"]) < _ORDER.index(wanted.certainty.value):
        yield _differs("certainty", finding["certainty"], wanted.certainty.value)
    for name in ("check", "subject"):
        if getattr(wanted, name) and finding[name] != getattr(wanted, name):
            yield _differs(name, finding[name], getattr(wanted, name))
    ranks = wanted.ranks if wanted.fewest is None else ranks_with_fewest(wanted.fewest, output)
    if ranks is not None and tuple(finding["ranks"]) != ranks:
        yield _differs("ranks", rank_ranges(finding["ranks"]) or "-", rank_ranges(ranks) or "-")
    yield from _wrong_place(finding["where"], wanted, folder)
    sentences = " ".join((finding["summary"], *finding["because"]))
    for words in wanted.says:
        if words not in sentences:
            yield say("it does not say {words}", words=words)
    yield from _wrong_remedy(finding["remedies"], wanted)


def _wrong_place(where: Mapping[str, Any] | None, wanted: ExpectedFinding, folder: Path) -> Iterator[Text]:
    if not wanted.file:
        return
    spoken = "-" if where is None else f"{Path(where['file']).name}:{where['line']}"
    if where is None or Path(where["file"]).name != Path(wanted.file).name:
        yield _differs("place", spoken, wanted.file)
        return
    lines = (folder / wanted.file).read_text(encoding="utf-8").splitlines()
    right = {number for number, text in enumerate(lines, 1) for piece in wanted.lines if piece in text}
    if wanted.lines and where["line"] not in right:
        yield _differs("place", spoken, f"{wanted.file}:{rank_ranges(sorted(right)) or wanted.lines[0]}")


def _wrong_remedy(remedies: list[dict[str, Any]], wanted: ExpectedFinding) -> Iterator[Text]:
    if not wanted.remedy and not wanted.change:
        return
    named = [one for one in remedies if wanted.remedy in f"{one['title']}\n{one['change']}"]
    if not named:
        yield say("no remedy says {words}", words=wanted.remedy)
        return
    texts = ["\n".join((one["change"], *(f"{key}={value}" for key, value in one["set"].items()))) for one in named]
    if not any(all(words in text for words in wanted.change) for text in texts):
        yield say("the remedy does not say {words}", words=", ".join(wanted.change))


def ranks_with_fewest(pattern: re.Pattern[str], output: str) -> tuple[int, ...]:
    """The ranks of the smallest count in ``output``, where ``pattern`` has the groups ``rank`` and ``count``."""
    counts = {int(match["rank"]): int(match["count"]) for match in pattern.finditer(output)}
    return tuple(sorted(rank for rank, count in counts.items() if count == min(counts.values())))


def _differs(what: str, found: object, right: object) -> Text:
    return say("{what} is {found}, must be {right}", what=what, found=str(found), right=str(right))
