"""The page ``docs/environment-variables.md``: what the programs around a job make of their variables, from
``knowledge/environment/``; written by ``python -m scripts.pages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scripts.page_text import in_language, known, table_cell
from unhang.knowledge.job.environment_variables import EnvironmentVariable, variables

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
OWNERS = {
    "torch": "PyTorch",
    "nccl": "NCCL",
    "gloo": "Gloo",
    "cuda": "CUDA",
    "slurm": "Slurm",
    "deepspeed": "DeepSpeed",
    "openmpi": "Open MPI",
    "huggingface": "Hugging Face",
    "nccl contrib": "NCCL contrib",
}


def environment_page(lang: str) -> str:
    """The page in one language."""
    listed = [row for row in variables() if row.status != "unread" and row.documented and not row.guess]
    unread = [row for row in variables() if row.status == "unread"]
    hidden = len(variables()) - len(listed) - len(unread)
    parts = [HEADS[lang].format(hidden=hidden)]
    owners = sorted({row.owner for row in listed}, key=lambda owner: ([*OWNERS, owner].index(owner), owner))
    for owner in owners:
        parts += [f"## {OWNERS.get(owner, owner)}\n", _table((row for row in listed if row.owner == owner), lang)]
    parts += [in_language(lang, "## Names nothing reads\n", "## 没有任何程序读取的名字\n"), _unread(unread, lang)]
    return "\n".join(parts)


def _table(rows: Iterable[EnvironmentVariable], lang: str) -> str:
    head = in_language(
        lang, "| variable | what it does | values and default | since |", "| 变量 | 作用 | 取值与默认值 | 起始版本 |"
    )
    return "\n".join([head, "|---|---|---|---|", *(_row(row, lang) for row in rows), ""])


def _row(row: EnvironmentVariable, lang: str) -> str:
    return f"| `{row.name}` | {_effect(row, lang)} | {_values(row, lang)} | {_versions(row, lang)} |"


def _effect(row: EnvironmentVariable, lang: str) -> str:
    given = [known(row.effect, lang)]
    if row.cost:
        given.append(in_language(lang, "**Cost:** ", "**代价**：") + known(row.cost, lang))
    given += [
        in_language(lang, "**Interacts with** ", "**相关设置**：")
        + f"`{known(one.other, lang)}`{in_language(lang, ': ', '：')}{known(one.why, lang)}"
        for one in row.conflicts
    ]
    if row.replacement:
        given.append(in_language(lang, "**Use instead:** ", "**改用**：") + known(row.replacement, lang))
    return table_cell("<br>".join(given))


def _values(row: EnvironmentVariable, lang: str) -> str:
    return table_cell("<br>".join(_given(row, lang)))


def _given(row: EnvironmentVariable, lang: str) -> Iterator[str]:
    if row.values:
        yield known(row.values, lang)
    default = "; ".join(f"{item.since}+: {item.value}" for item in row.defaults) or row.default
    if default:
        yield in_language(lang, "default: ", "默认：") + known(default, lang)


def _versions(row: EnvironmentVariable, lang: str) -> str:
    ends = {
        "deprecated": in_language(lang, "deprecated", "已弃用"),
        "renamed": in_language(lang, "renamed", "已改名"),
        "removed": in_language(lang, "removed", "已移除"),
    }
    since = known(row.since, lang)
    return table_cell(
        "<br>".join(
            filter(None, (since, f"{ends[row.status]} {known(row.until, lang)}".strip() if row.status in ends else ""))
        )
    )


def _unread(rows: Iterable[EnvironmentVariable], lang: str) -> str:
    head = in_language(lang, "| name | use instead |", "| 名字 | 改用 |")
    return "\n".join(
        [head, "|---|---|", *(f"| `{row.name}` | {table_cell(known(row.replacement, lang))} |" for row in rows), ""]
    )
