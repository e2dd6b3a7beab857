"""The verdict for a chat: one block for the person who runs the job, one for the administrator of the machines, and
last, where nothing is likely, what similar logs had."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Evidence, Finding, NotChecked, Remedy, RemedyKind, Severity, Verdict
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Words
from unhang.report import labels
from unhang.report.first_lines import first_lines, spoken_time
from unhang.report.layout.markdown_text import escape_markdown, inline_code, inline_text, sentence
from unhang.report.layout.sections import build_or_default
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.report.redaction.shown_paths import without_library_roots
from unhang.report.shown_places import shown_places
from unhang.sentences import Text, say

EVIDENCE_SHOWN, CHANGE_LINES = 3, 6

_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_BUS = re.compile(r"(?<![\w:])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?(?![\w:])", re.IGNORECASE)
_PCI = re.compile(
    r"PCI[^0-9a-fA-F]{0,4}((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}(?::[0-9a-f]{2}(?:\.[0-9a-f])?)?)", re.IGNORECASE
)
_CARD = re.compile(r"\bcuda:\d+\b")
_XID = re.compile(r"\bXid(?:\s*\([^)\n]*\))?\s*[:=]?\s*(\d{1,3})\b", re.IGNORECASE)
_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d|\b[A-Z]{3,4})$")


def to_markdown(
    verdict: Verdict, facts: Facts | None = None, *, lang: str = "en", redactor: Redactor | None = None
) -> str:
    """``verdict`` as about 25 lines of Markdown: *you*, *your administrator*, and the background where there is any."""
    localizer = Localizer(lang, redactor or Redactor())
    localizer.redactor.learn_from(verdict)
    gaps: list[NotChecked] = []
    nothing: list[str] = []
    lines = [*build_or_default("headline", lambda: _headline(verdict, localizer), nothing, gaps)]
    lines += ["", f"**{localizer.say(say('You'))}**"]
    lines += build_or_default("you", lambda: _you(verdict, facts, localizer), nothing, gaps)
    lines += ["", f"**{localizer.say(say('Your administrator'))}**"]
    lines += build_or_default("administrator", lambda: _administrator(verdict, facts, localizer), nothing, gaps)
    lines += build_or_default("background", lambda: _background(verdict, localizer), nothing, gaps)
    lines += [f"- {sentence(gap.what, localizer)}{localizer.colon}{sentence(gap.because, localizer)}" for gap in gaps]
    return "\n".join(lines) + "\n"


def _headline(verdict: Verdict, localizer: Localizer) -> list[str]:
    status = localizer.say(labels.status_label(verdict))
    facts = [escape_markdown(part) for part in first_lines(verdict, localizer)]
    lines = [f"**{status}**{localizer.colon}{sentence(labels.headline(verdict), localizer)}"]
    return [*lines, "", " · ".join(facts)] if facts else lines


def _you(verdict: Verdict, facts: Facts | None, localizer: Localizer) -> list[str]:
    lines: list[str] = []
    first, _ = labels.first_and_others(verdict)
    lines += _finding(first, facts, localizer) if first is not None else []
    lines += [f"- {sentence(item.what, localizer)}" for item in verdict.checked if len(verdict.checked) > 1]
    for item in verdict.not_checked[:2]:
        how = f"{localizer.colon}{inline_code(localizer.line(localizer.command(item.how)))}" if item.how else ""
        lines.append(f"- {localizer.say(say('Not checked'))}{localizer.colon}{sentence(item.what, localizer)}{how}")
    advice = labels.restart_advice(verdict)
    if advice is not None:
        lines.append(f"- {sentence(advice, localizer)}")
    lines += [f"- {sentence(line, localizer)}" for line in labels.checkpoint_advice(verdict.restart)]
    seen = localizer.say(labels.ranks_seen_text(verdict))
    return [*lines, *([f"- {seen}"] if seen else [])]


def _finding(finding: Finding, facts: Facts | None, localizer: Localizer) -> list[str]:
    lines = _remedy(finding.remedies[0], localizer) if finding.remedies else []
    lines += [f"- {sentence(text, localizer)}" for text in finding.because[: labels.REASONS_SHOWN]]
    for who, where in shown_places(finding, facts):
        lines.append(f"- {sentence(who, localizer)}{localizer.colon}{inline_code(localizer.place(where))}")
    lines += [f"- {_cited(item, localizer)}" for item in finding.evidence[:EVIDENCE_SHOWN]]
    return lines


def _background(verdict: Verdict, localizer: Localizer) -> list[str]:
    told = [f"- {sentence(labels.background_text(candidate), localizer)}" for candidate in verdict.differential]
    told += [f"- {incident.cause.value}{localizer.colon}{inline_code(incident.link)}" for incident in verdict.incidents]
    return ["", f"**{localizer.say(labels.BACKGROUND)}**", *told] if told else []


def _remedy(remedy: Remedy, localizer: Localizer) -> list[str]:
    title = f"- **{localizer.say(labels.NEXT)}**{localizer.colon}{sentence(remedy.title, localizer)}"
    costs = _told(say("Costs"), remedy.cost, localizer)
    return [title, *_change(remedy, localizer), *costs, *_told(say("Check"), remedy.verify, localizer)]


def _told(label: Text, text: Text, localizer: Localizer) -> list[str]:
    said = inline_text(text, localizer)
    return [f"- {localizer.say(label)}{localizer.colon}{said}"] if said.strip() else []


def _change(remedy: Remedy, localizer: Localizer) -> list[str]:
    lines: list[str] = []
    change = localizer.say(remedy.change).strip("\n")
    if "\n" in change:
        shown = change.split("\n")
        cut = ["…"] if len(shown) > CHANGE_LINES else []
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", change)), default=0))
        lines += [f"  {fence}", *(f"  {line}" for line in shown[:CHANGE_LINES] + cut), f"  {fence}"]
    elif change:
        lines.append(f"  {inline_text(remedy.change, localizer)}")
    settings = [f"export {name}={localizer.line(value)}" for name, value in remedy.set.items()]
    settings += [f"unset {' '.join(remedy.unset)}"] if remedy.unset else []
    return lines + [f"  {inline_code(setting)}" for setting in settings]


def _cited(item: Evidence, localizer: Localizer) -> str:
    line = f":{item.source.line}" if item.source.line is not None else ""
    text = localizer.line(without_library_roots(item.text), 160)
    return f"{inline_code(localizer.line(item.source.path) + line)} {inline_code(text)}"


def _administrator(verdict: Verdict, facts: Facts | None, localizer: Localizer) -> list[str]:
    asked = [finding for finding in verdict.findings if _for_administrator(finding)]
    sure = [f for f in asked if f is verdict.findings[0] or f.certainty is not Certainty.POSSIBLE]
    # what is only possible is asked for where nothing is known better
    findings = [_with_nodes(finding, facts) for finding in (sure or asked)[:2]]
    if not findings:
        return [f"- {sentence(_nothing_to_ask(verdict), localizer)}"]
    since = verdict.stalled_since or ""
    lines = [line for one in findings for line in _request(one, localizer, since=since, suspected=not sure)]
    aliases = [said for f in findings for node in f.nodes if (said := localizer.line(node)) != node]
    if aliases and localizer.redactor.share:
        replaced = say("{name} replaces the real name; without `--redact` this text shows it", name=aliases[0])
        lines.append(f"- {sentence(replaced, localizer)}")
    return lines


def _with_nodes(finding: Finding, facts: Facts | None) -> Finding:
    """Where its own lines name none: those of its ranks."""
    known = facts.ranks if facts is not None and not finding.nodes else {}
    hosts = dict.fromkeys(known[rank].host for rank in finding.ranks if rank in known)
    return replace(finding, nodes=(*finding.nodes, *(host for host in hosts if host)))


def _nothing_to_ask(verdict: Verdict) -> Text:
    stopped = verdict.findings and verdict.findings[0].severity is Severity.STOPS
    if stopped and verdict.findings[0].cause is Cause.UNKNOWN and verdict.ranks_missing:
        return say(
            "No evidence points to the machines yet, but there is no data from {ranks:who}: "
            "`dmesg -T` on {ranks:its node|their nodes} would show a killed process, a lost GPU "
            "or a link that went down.",
            ranks=verdict.ranks_missing,
        )
    return say("Nothing to ask: no evidence points to the machines.")


@cache
def _requests() -> Mapping[Cause, Text]:
    """What to ask for where a finding brings no infrastructure remedy of its own."""
    return {cause: Text(row.en, {}) for cause, row in read_typed("administrator.toml", dict[Cause, Words]).items()}


def _for_administrator(finding: Finding) -> bool:
    if finding.severity is Severity.NOTE:
        return False
    infrastructure = any(remedy.kind is RemedyKind.INFRASTRUCTURE for remedy in finding.remedies)
    return finding.cause in _requests() or infrastructure


def _request(finding: Finding, localizer: Localizer, *, since: str, suspected: bool) -> list[str]:
    """All that somebody needs who reads nothing else: what happened, where, when, and what to do with which command."""
    facts: list[str] = [localizer.say(labels.ranks_label(finding.ranks))] if finding.ranks else []
    if finding.nodes:
        facts.append(localizer.say(say("node {nodes}", nodes=inline_code(localizer.line(", ".join(finding.nodes))))))
    else:
        facts.append(localizer.say(say("the node is not named")))
    facts += _hardware(finding.evidence, localizer)
    when = next((item.time for item in finding.evidence if item.time), None)
    if when:
        facts.append(with_zone(when, localizer))
    elif since:
        facts.append(localizer.say(say("since {time}", time=with_zone(since, localizer))))
    remedy = next((item for item in finding.remedies if item.kind is RemedyKind.INFRASTRUCTURE), None)
    if remedy is None and suspected:
        remedy = next(iter(finding.remedies), None)  # nobody drains a node for what is only possible
    request = _requests()[finding.cause] if remedy is None else remedy.title
    lines = [f"- {sentence(finding.summary, localizer)}", f"- {' · '.join(facts)}", f"- {sentence(request, localizer)}"]
    if remedy is not None:
        lines += [*_change(remedy, localizer), *_told(say("Check"), remedy.verify, localizer)]
    return [*lines, *(f"- {_cited(item, localizer)}" for item in finding.evidence[:2])]


def _hardware(evidence: Iterable[Evidence], localizer: Localizer) -> list[str]:
    """Card UUID, PCI bus, device of its process and Xid code named by the evidence, each once."""
    found: dict[str, None] = {}
    for item in evidence:
        text = localizer.line(item.text)
        found.update((f"GPU {inline_code(uuid)}", None) for uuid in _UUID.findall(text))
        if "pci" in text.lower() or "bus" in text.lower():
            buses = [match[1] for match in _PCI.finditer(text)] or _BUS.findall(text)
            found.update((f"PCI {inline_code(bus)}", None) for bus in buses)
        found.update((inline_code(card), None) for card in _CARD.findall(text))
        found.update((f"Xid {number}", None) for number in _XID.findall(text))
    return list(found)


def with_zone(time: str, localizer: Localizer) -> str:
    """``time``, saying so when its zone is not known."""
    told = inline_code(localizer.line(spoken_time(time)))
    return told if _ZONE.search(time) else localizer.say(say("{time} (zone not recorded)", time=told))
