"""The page ``docs/environment-variables.md``: what the programs around a job make of their variables, from
``knowledge/environment/``; written by ``python -m scripts.pages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scripts.page_text import in_language, known, table_cell
from unhang.knowledge.job.environment_variables import EnvironmentVariable, variables
from unhang.report.explain.variable_pages import OWNERS
from unhang.report.language import word_catalogue

HEADS = {
    "en": """# Environment variables

[中文](environment-variables.zh-CN.md)

Variables that decide how a multi-GPU job starts, communicates, waits and ends: who reads them, since which version,
what they do and what they cost. `unhang check -- COMMAND` says what the variables of your job do. `unhang explain NAME`
and `unhang explain NAME=value` explain one; they also know {hidden} undocumented tuning variables that are not listed
here.

unhang's own variables (`UNHANG_…`) are on the page about [the command line](command-line.md#defaults).
""",
    "zh": """# 环境变量

[English](environment-variables.md)

决定多卡作业如何启动、通信、等待和结束的变量：谁读、从哪个版本起、有什么作用、有什么代价。
`unhang check -- COMMAND` 会说明你的作业里这些变量的作用；`unhang explain NAME` 或 `unhang explain NAME=value`
解释单个变量，包括这里没有列出的 {hidden} 个没有文档的调优变量。

unhang 自己的变量（`UNHANG_…`）见[命令行](command-line.zh-CN.md#默认值)。
""",
}
_ENDS = {"deprecated": ("Deprecated", "已弃用"), "renamed": ("Renamed", "已改名"), "removed": ("Removed", "已移除")}


def environment_page(lang: str) -> str:
    """The page in one language."""
    listed = [row for row in variables() if row.status != "unread" and row.documented and not row.guess]
    unread = [row for row in variables() if row.status == "unread"]
    hidden = len(variables()) - len(listed) - len(unread)
    parts = [HEADS[lang].format(hidden=hidden)]
    owners = sorted({row.owner for row in listed}, key=lambda owner: ([*OWNERS, owner].index(owner), owner))
    for owner in owners:
        named = OWNERS.get(owner, owner)
        heading = f"## {word_catalogue(lang).get(named, named)}\n"
        parts += [heading, *(_section(row, lang) for row in listed if row.owner == owner)]
    parts += [in_language(lang, "## Names nothing reads\n", "## 没有任何程序读取的名字\n"), _unread(unread, lang)]
    return "\n".join(parts)


def _section(row: EnvironmentVariable, lang: str) -> str:
    """A heading, so that the search finds the name, what it does, and what else is known of it."""
    facts = "".join(f"- {label}{text}\n" for label, text in _facts(row, lang) if text)
    return f"#### {row.name}\n\n{_line(row.effect, lang)}\n" + (f"\n{facts}" if facts else "")


def _facts(row: EnvironmentVariable, lang: str) -> Iterator[tuple[str, str]]:
    yield in_language(lang, "**Cost:** ", "**代价**："), _line(row.cost, lang)
    for one in row.conflicts:
        with_other = in_language(lang, "**Interacts with** `{}`: ", "**与 `{}` 相互影响**：").format(
            known(one.other, lang)
        )
        yield with_other, _line(one.why, lang)
    yield in_language(lang, "**Use instead:** ", "**改用**："), _line(row.replacement, lang)
    yield in_language(lang, "**Values:** ", "**取值**："), _line(row.values, lang)
    default = "; ".join(f"{item.since}+: {item.value}" for item in row.defaults) or row.default
    yield in_language(lang, "**Default:** ", "**默认**："), _line(default, lang)
    yield in_language(lang, "**Since:** ", "**起始版本**："), _line(row.since, lang)
    if row.status in _ENDS:
        yield (
            in_language(lang, "**{}:** ", "**{}**：").format(in_language(lang, *_ENDS[row.status])),
            _line(row.until, lang),
        )


def _line(text: str, lang: str) -> str:
    return " ".join(known(text, lang).split())


def _unread(rows: Iterable[EnvironmentVariable], lang: str) -> str:
    head = in_language(lang, "| name | use instead |", "| 名字 | 改用 |")
    return "\n".join(
        [head, "|---|---|", *(f"| `{row.name}` | {table_cell(known(row.replacement, lang))} |" for row in rows), ""]
    )
