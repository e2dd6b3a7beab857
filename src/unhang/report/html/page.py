"""The verdict as one self-contained HTML file: no request leaves it, nothing from the evidence becomes markup or code.

The template escapes everything; the timeline's data travels as JSON in a data block and is drawn by the page's own
script as text nodes only; a content security policy allows this one style sheet and this one script by their hashes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from unhang import __version__
from unhang.facts.model import CallMismatch, Facts
from unhang.findings import Evidence, Finding, NotChecked, Verdict, Where
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase, text_of
from unhang.report import labels
from unhang.report.first_lines import cause_of, first_lines, spoken_headline, world_of
from unhang.report.html.cited_lines import CitedLines
from unhang.report.html.embedding import data_block, policy_hash
from unhang.report.html.late_ranks import group_label, late_ranks, waited_lines
from unhang.report.html.stack_groups import StackGroup, stack_groups
from unhang.report.html.timeline import call_label, card_charts, timelines
from unhang.report.html.wait_graph import EMPTY, wait_graph
from unhang.report.job_headings import job_headings
from unhang.report.layout.sections import build_or_default
from unhang.report.layout.source_lines import source_lines
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.report.redaction.shown_paths import without_library_roots
from unhang.report.shown_places import shown_places
from unhang.report.text import consequence_line, evidence_folder, source_label
from unhang.report.verdict_document import verdict_document
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.diagnosis.jobs import JobVerdict

ASSETS = Path(__file__).parent
NOBODY: frozenset[int] = frozenset()
NO_STACKS: tuple[tuple[StackGroup, ...], int] = ((), 0)


def write_html(
    verdict: Verdict,
    facts: Facts,
    path: str | Path,
    *,
    lang: str = "en",
    redactor: Redactor | None = None,
    jobs: Sequence[JobVerdict] = (),
) -> Path:
    """Write the page to ``path``, private to the user (0600), whole or not at all.

    Raises:
        OSError: the folder does not exist or cannot be written.
    """
    path = Path(path)
    page = to_html(verdict, facts, lang=lang, redactor=redactor, jobs=jobs)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def to_html(
    verdict: Verdict,
    facts: Facts,
    *,
    lang: str = "en",
    redactor: Redactor | None = None,
    jobs: Sequence[JobVerdict] = (),
) -> str:
    """The page as text. ``jobs``: where files are of several, each with its verdict, this one first."""
    localizer = Localizer(lang, redactor or Redactor())
    told = [(job.verdict, job.facts) for job in jobs] or [(verdict, facts)]
    for one in told:
        localizer.redactor.learn_from(*one)
    together, *titles = job_headings(jobs, localizer, "html") if jobs else ("", "")
    pages: list[dict[str, Any]] = []
    for title, one in zip(titles, told, strict=True):
        cited = sum(len(page["verdict"]["files"]) for page in pages)
        pages.append({"title": title, **_job(*one, localizer, cited)})
    phrases = read_typed("report_page.toml", dict[str, Phrase])
    words = {name: localizer.say(text_of(phrase, {})) for name, phrase in phrases.items()}
    style, script = _asset("page.css"), _asset("page.js")
    data = {"jobs": [page["groups"] for page in pages], "words": words}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            lang=lang,
            version=__version__,
            policy=f"default-src 'none'; style-src '{policy_hash(style)}'; script-src '{policy_hash(script)}'; "
            "base-uri 'none'; form-action 'none'",
            style=Markup(style),  # noqa: S704  # our own file
            script=Markup(script),  # noqa: S704  # our own file
            data=Markup(data_block(data)),  # noqa: S704  # cannot close its element, see data_block
            words=words,
            together=together,
            jobs=pages,
        )
    )


def _job(verdict: Verdict, facts: Facts, localizer: Localizer, cited: int) -> dict[str, Any]:
    """What the page shows of one job; ``cited``: so many files are cited above it."""
    gaps: list[NotChecked] = []
    late = build_or_default("ranks", lambda: late_ranks(verdict, facts), NOBODY, gaps)
    nothing: list[Any] = []
    groups = build_or_default("timeline", lambda: timelines(facts, late, localizer), nothing, gaps)
    cards = build_or_default("cards", lambda: card_charts(facts, late, localizer), nothing, gaps)
    stacks, stacks_left_out = build_or_default("stacks", lambda: stack_groups(facts, late, localizer), NO_STACKS, gaps)
    waits = build_or_default("waits", lambda: waited_lines(verdict, facts, localizer), nothing, gaps)
    graph = build_or_default("who waits for whom", lambda: wait_graph(facts, late, localizer), EMPTY, gaps)
    meeting = build_or_default(
        "meetings", lambda: [] if facts.graph.edges else stuck_collectives(facts, localizer), nothing, gaps
    )
    return {
        "verdict": _verdict(replace(verdict, not_checked=(*verdict.not_checked, *gaps)), facts, localizer, cited),
        "waits": waits,
        "groups": groups,
        "cards": cards,
        "graph": graph,
        "meetings": meeting,
        "stacks": stacks,
        "stacks_left_out": stacks_left_out,
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["blocks"] = _text_and_code
    environment.filters["ranks"] = labels.short_ranks
    environment.filters["all_ranks"] = lambda ranks: labels.short_ranks(ranks, 100_000)
    return environment


def _text_and_code(text: str) -> list[tuple[bool, str]]:
    """``text`` cut into (is code, lines): lines indented by four blanks or more are code."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in text.strip("\n").split("\n"):
        code = line.startswith("    ") or (not line.strip() and bool(blocks) and blocks[-1][0])
        if not blocks or blocks[-1][0] is not code:
            blocks.append((code, []))
        blocks[-1][1].append(line.removeprefix("    ") if code else line)
    return [(code, "\n".join(lines).strip("\n")) for code, lines in blocks if any(line.strip() for line in lines)]


def _asset(name: str) -> str:
    return (ASSETS / name).read_text("utf-8").strip()


def _verdict(verdict: Verdict, facts: Facts, localizer: Localizer, before: int) -> dict[str, Any]:
    cited = CitedLines(verdict, facts, localizer, before)
    status, headline, rest = spoken_headline(verdict, localizer)
    advice = labels.restart_advice(verdict)
    because = localizer.sentence(verdict.restart.because) if verdict.restart.because else ""
    folder = evidence_folder(verdict.findings, localizer)
    first, others = labels.first_and_others(verdict)
    return {
        "document": verdict_document(verdict, localizer),
        "status": verdict.status.value,
        "status_word": status,
        "headline": headline,
        "rest": rest,
        "about": first_lines(replace(verdict, noticed_after_s=None, killed_in_s=None), localizer),
        "seen": localizer.say(labels.ranks_seen_text(verdict)),
        "first": _finding(first, facts, cited, folder, localizer) if first is not None else None,
        "others": [_finding(finding, facts, cited, folder, localizer) for finding in others],
        "restart": localizer.two(localizer.sentence(advice), because) if advice is not None else "",
        "background": [localizer.say(labels.background_text(candidate)) for candidate in verdict.differential],
        "checkpoints": [localizer.say(line) for line in labels.checkpoint_advice(verdict.restart)],
        "checked": [localizer.sentence(item.what) for item in verdict.checked],
        "folder": localizer.say(say("in {folder}", folder=folder)) if folder else "",
        "unread": [
            {"label": source_label(item.source, localizer), "reason": localizer.line(localizer.reason(item.reason))}
            for item in verdict.unread
        ],
        "files": list(cited.files()),
    }


def _finding(finding: Finding, facts: Facts, cited: CitedLines, folder: str, localizer: Localizer) -> dict[str, Any]:
    further = len(finding.because) - labels.REASONS_SHOWN
    return {
        "cause": [*cause_of(finding, localizer), *world_of(finding, localizer)],
        "summary": localizer.sentence(finding.summary),
        "because": [localizer.sentence(text) for text in finding.because[: labels.REASONS_SHOWN]],
        "more": localizer.say(say("and {count} more: --format json", count=further)) if further > 0 else "",
        "ranks": finding.ranks,
        "sites": [
            _site(localizer.say(who), where, where == finding.where, facts, cited, localizer)
            for who, where in shown_places(finding, facts)
        ],
        "evidence": [_evidence(item, cited, folder, localizer) for item in finding.evidence],
        "consequences": [consequence_line(item, localizer) for item in finding.consequences],
    }


def _site(who: str, where: Where, late: bool, facts: Facts, cited: CitedLines, localizer: Localizer) -> dict[str, Any]:
    lines = source_lines(facts, where, around=3)
    return {
        "who": who,
        "late": late,
        "place": localizer.place(where),
        "function": localizer.line(where.function),
        "anchor": cited.anchor(where.file, where.line),
        "lines": [
            {"number": line.number, "text": localizer.line_of_code(line.text), "hit": line.hit} for line in lines
        ],
    }


def _evidence(item: Evidence, cited: CitedLines, folder: str, localizer: Localizer) -> dict[str, Any]:
    return {
        "label": source_label(item.source, localizer, folder),
        "anchor": cited.anchor(item.source.path, item.source.line),
        "text": without_library_roots(localizer.clean(item.text)[:2000]),
        "rank": item.rank,
        "time": localizer.line(item.time) if item.time else "",
    }


MAX_SHOWN = 8


def stuck_collectives(facts: Facts, localizer: Localizer) -> list[str]:
    """One sentence for each of the first disagreements and symmetric stalls."""
    spoken = [localizer.line(localizer.say(_mismatch(facts, item, localizer))) for item in facts.mismatches[:MAX_SHOWN]]
    for stall in facts.all_joined_stalls[:MAX_SHOWN]:
        sentence = say(
            "All of {ranks} joined {operation} at position {position} of {group}, and none finished it.",
            ranks=labels.ranks_label(stall.ranks),
            operation=stall.operation,
            position=stall.position,
            group=_group(facts, stall.group),
        )
        spoken.append(localizer.line(localizer.say(sentence)))
    return spoken


def _mismatch(facts: Facts, item: CallMismatch, localizer: Localizer) -> Text:
    sides = sorted(item.calls.items(), key=lambda side: (len(side[1]), side[1]))
    calls = "; ".join(
        f"{localizer.say(labels.ranks_label(ranks))}: {call_label(signature)}" for signature, ranks in sides
    )
    return say(
        "Different calls at position {position} of {group}: {calls}.",
        position=item.position,
        group=_group(facts, item.group),
        calls=calls,
    )


def _group(facts: Facts, name: str) -> str:
    group = facts.groups.get(name)
    return name if group is None else group_label(group)
