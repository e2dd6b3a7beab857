"""The pages ``docs/causes/``: one for each cause, from its own text, a real case and the incidents; written by
``python -m scripts.pages``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scripts.house import HERE
from scripts.page_text import in_language, known, table_cell
from unhang.diagnosis.jobs import JobVerdict, diagnose_jobs
from unhang.evidence.inputs import read_evidence
from unhang.findings import Cause, Evidence
from unhang.knowledge.known_incidents.incidents import Incident, incidents
from unhang.knowledge.reasoning_rows import cause_rows
from unhang.knowledge.terms import Term, terms
from unhang.knowledge.words import text_of
from unhang.report.explain.cause_pages import cause_parts
from unhang.report.language import translate
from unhang.report.text import to_text

CASES = HERE / "tests" / "cases"
SHOWN = {
    Cause.UNEVEN_DATA: "hit_log_said_its_data_had_ended",
    Cause.RANK_CONDITIONAL_COLLECTIVE: "hit_log_save_against_backward",
    Cause.COLLECTIVE_MISMATCH: "hit_log_same_position_other_size",
    Cause.SINGLE_RANK_WORK: "hit_log_bar_spans_the_limit",
    Cause.SLOW_DATA_LOADING: "hit_log_loader_timeout",
    Cause.RANK_CRASHED: "hit_log_first_exception_before_last_timeout",
    Cause.GPU_OOM: "hit_then_network_errors",
    Cause.HOST_MEMORY: "hit_log_shm_in_container",
    Cause.GPU_HARDWARE: "hit_log_xid_79",
    Cause.NETWORK_FAULT: "hit_log_port_error",
    Cause.NETWORK_CONFIG: "hit_log_no_interface",
    Cause.P2P_BROKEN: "hit_log_consumer_cards_stuck_at_first_use",
    Cause.DEVICE_MAPPING: "hit_log_two_ranks_one_gpu",
    Cause.VERSION_MISMATCH: "hit_log_known_defect_in_all_to_all",
    Cause.TIMEOUT_TOO_SHORT: "hit_milliseconds_for_seconds",
    Cause.RENDEZVOUS: "hit_log_too_few_came",
    Cause.DEADLOCK_ORDER: "hit_log_both_ranks_send",
    Cause.RANK_FROZEN: "hit_log_interpreter_lock_on_one_rank",
    Cause.SLOW_RANK: "hit_five_looks",
    Cause.UNKNOWN: "hit_log_one_watchdog_line",
}
"""The case of each page: one whose evidence is lines of a log, where there is one."""
MAX_LINES, MAX_CHARS, MAX_INCIDENTS, WIDTH = 10, 180, 8, 96


def cause_pages(lang: str) -> Iterator[tuple[str, str]]:
    """The name of each page, without its ending, and its text: the list of all, then a page a cause."""
    yield "causes/index", _list(lang)
    for cause in Cause:
        yield f"causes/{cause.value}", cause_page(cause, lang)


def cause_page(cause: Cause, lang: str) -> str:
    """The page of one cause."""
    title, parts = cause_parts(cause)
    said = {label: known(text, lang) for label, text in parts.items()}
    sections = (
        (in_language(lang, "", ""), said.get("What happens", "")),
        (in_language(lang, "Why it hangs", "为什么会卡住"), said.get("Why it hangs", "")),
        (in_language(lang, "Example", "例子"), said.get("Example", "")),
        (in_language(lang, "In a log", "日志里是什么样"), _excerpt(cause, lang)),
        (in_language(lang, "What unhang says", "unhang 怎么说"), _block(_headline(cause, lang))),
        (in_language(lang, "What to change", "怎么改"), said.get("Fix", "")),
        (in_language(lang, "How certain it is", "有多确定"), _certainty(said, lang)),
        (in_language(lang, "What else it could be", "还可能是什么"), _neighbours(cause, lang)),
        (in_language(lang, "Related errors and terms", "相关报错与说法"), _words(cause, lang)),
        (in_language(lang, "Known incidents", "已知事故"), _incidents(cause, lang)),
    )
    name = f"{cause.value}{in_language(lang, ': ', '：')}{_lower(known(title, lang)).rstrip('.。')}"
    told = (f"## {heading}\n\n{text}" if heading else text for heading, text in sections if text)
    return "\n\n".join([f"# {name}", _switch(cause.value, lang), *told]) + "\n"


def _list(lang: str) -> str:
    head = in_language(
        lang,
        "# What unhang recognises\n\n{switch}\n\nEach cause has an id that never changes. Its page shows a real log,"
        " what unhang says of it, and what to change. `unhang explain ID` prints the same without a browser.",
        "# unhang 能认出什么\n\n{switch}\n\n每个原因都有一个不变的 id。它的页面给出真实日志、unhang 的说法和改法。"
        "不开浏览器也能看：`unhang explain ID`。",
    ).replace("{switch}", _switch("index", lang))
    table = [in_language(lang, "| cause | what happens |", "| 原因 | 发生了什么 |"), "|---|---|"]
    table += [f"| [{cause.value}]({_page(cause.value, lang)}) | {_title(cause, lang)} |" for cause in Cause]
    return f"{head}\n\n" + "\n".join(table) + "\n"


def _page(name: str, lang: str) -> str:
    return f"{name}{in_language(lang, '', '.zh-CN')}.md"


def _switch(name: str, lang: str) -> str:
    """The line that leads to the same page in the other language."""
    return f"[{in_language(lang, '中文', 'English')}]({_page(name, in_language(lang, 'zh', 'en'))})"


def _title(cause: Cause, lang: str) -> str:
    return table_cell(known(cause_parts(cause)[0], lang))


def _lower(text: str) -> str:
    """A title behind a colon: in lower case, unless it begins with an abbreviation."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


@cache
def _job(cause: Cause) -> JobVerdict:
    return diagnose_jobs(read_evidence([str(CASES / cause.value / SHOWN[cause] / "input")]))[0]


def _headline(cause: Cause, lang: str) -> str:
    """What a terminal shows first of the case, up to the reasons."""
    job = _job(cause)
    return to_text(job.verdict, job.facts, lang=lang, width=WIDTH).partition("\n\n")[0].rstrip()


def _excerpt(cause: Cause, lang: str) -> str:
    """The lines the case's verdict rests on, as they are in its files."""
    lead = _job(cause).verdict.lead
    assert lead is not None, cause
    case = CASES / cause.value / SHOWN[cause]
    shown = [lines for lines in _lines_by_file(lead.evidence, case / "input", len(lead.evidence)) if lines]
    link = f"../../tests/cases/{cause.value}/{SHOWN[cause]}"
    note = in_language(
        lang,
        f"From [a case of the tests]({link}); `…` is for what was left out.",
        f"摘自[一个测试用例]({link})；`…` 表示省略。",
    )
    return f"{_block(chr(10).join(shown))}\n\n{note}"


def _lines_by_file(evidence: tuple[Evidence, ...], folder: Path, pieces: int) -> Iterator[str]:
    wanted: dict[Path, dict[int, str]] = {}
    for piece in evidence:
        file = Path(piece.source.path)
        if piece.source.line is not None and file.is_file():
            wanted.setdefault(file, {})[piece.source.line] = piece.text
    for file, numbers in wanted.items():
        text = file.read_text(encoding="utf-8", errors="replace").split("\n")
        around = (0, MAX_LINES) if "stacks" in file.parts else (3, 2) if pieces == 1 else (0, 0)
        chosen = sorted(
            {
                line
                for number in numbers
                for line in range(number - around[0], number + around[1] + 1)
                if 1 <= line <= len(text)
            }
        )[:MAX_LINES]
        if len(wanted) > 1:
            yield f"# {file.relative_to(folder).as_posix()}"
        last = 0
        for line in chosen:
            if line != last + 1 and last:
                yield "…"
            last = line
            yield _cut(text[line - 1], numbers.get(line, ""))


def _cut(line: str, quoted: str) -> str:
    """A line as it was printed: of one that a bar was drawn on again and again, what was quoted."""
    drawn = [part for part in line.split("\r") if part.strip()] or [""]
    one = next((part for part in drawn if quoted and part.strip().startswith(quoted[:40].strip())), drawn[-1])
    one = one.rstrip().expandtabs(4)
    return one if len(one) <= MAX_CHARS else f"{one[:MAX_CHARS]}…"


def _certainty(said: dict[str, str], lang: str) -> str:
    labels = (
        ("Certain when", in_language(lang, "**Certain** when: ", "**确定**：")),
        ("Likely when", in_language(lang, "**Likely** when: ", "**很可能**：")),
        ("Possible when", in_language(lang, "**Possible** when: ", "**可能**：")),
    )
    return "\n\n".join(label + _lower(said[name]) for name, label in labels if said.get(name))


def neighbours(cause: Cause) -> list[Cause]:
    """Causes that a look-alike among the cases has instead, or whose look-alikes have this one."""
    found = {
        frozenset((Path(case).parts[-3], json.loads(case.read_text(encoding="utf-8")).get("cause")))
        for case in CASES.glob("*/miss_*/expected.json")
    }
    return [
        other
        for other in Cause
        if other is not cause and other is not Cause.UNKNOWN and {cause.value, other.value} in found
    ]


def _neighbours(cause: Cause, lang: str) -> str:
    """What settles it, and what settles each cause that is easily taken for it."""
    named = [other for other in (cause, *neighbours(cause)) if cause_rows()[other].settles]
    if named in ([], [cause]) and cause is Cause.UNKNOWN:
        return ""
    head = in_language(
        lang,
        "| cause | what happens | what settles it | how to check |",
        "| 原因 | 发生了什么 | 看什么能定下来 | 怎么查 |",
    )
    rows = (
        (_link(other, cause, lang), _title(other, lang), _settles(other, lang), _code(cause_rows()[other].how))
        for other in named
    )
    return "\n".join([head, "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def _link(other: Cause, here: Cause, lang: str) -> str:
    return f"**{other.value}**" if other is here else f"[{other.value}]({_page(other.value, lang)})"


def _settles(cause: Cause, lang: str) -> str:
    return table_cell(translate(text_of(cause_rows()[cause].settles, {}), lang))


def _code(command: str) -> str:
    return f"`{table_cell(command)}`" if command else ""


def _words(cause: Cause, lang: str) -> str:
    """Words of error messages, codes and questions whose first cause this is."""
    led = [term for term in terms() if term.causes[:1] == (cause.value,) and term.kind not in ("subject", "operation")]
    return "\n".join(
        f"- **{_name(term, lang)}**{in_language(lang, ': ', '：')}{known(term.meaning, lang)}" for term in led
    )


def _name(term: Term, lang: str) -> str:
    chinese = [name for name in term.names if lang == "zh" and not name.isascii()]
    return known(f"{chinese[0]}（{term.names[0]}）" if chinese else term.names[0], lang)


def _incidents(cause: Cause, lang: str) -> str:
    known = sorted((row for row in incidents() if row.cause is cause), key=lambda row: (-row.year, row.id))
    if not known:
        return ""
    head = in_language(
        lang,
        "Public reports whose cause was found; the newest {shown} of {count}.",
        "原因已查明的公开报告，共 {count} 起，这里是最新的 {shown} 起。",
    ).format(shown=min(MAX_INCIDENTS, len(known)), count=len(known))
    return "\n".join([f"{head}\n", *(_incident(row, lang) for row in known[:MAX_INCIDENTS])])


def _incident(row: Incident, lang: str) -> str:
    head = in_language(lang, f" ({row.year}): ", f"（{row.year}）：")
    ended = in_language(lang, " *What ended it:* ", "*如何解决*：")
    return f"- [{row.id}]({row.link}){head}{known(row.happened, lang)}{ended}{known(row.fixed, lang)}"
