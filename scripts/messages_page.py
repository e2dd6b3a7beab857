"""The page ``docs/messages.md``: every message kind with what it says and its fields; written by
``python -m scripts.pages``.
"""

from __future__ import annotations

from scripts.page_text import known, table_cell
from unhang.knowledge.messages import MessageRow, field_type, fields_of, load_messages

_HEADS = {
    "en": """# Messages unhang recognises in logs

[中文](messages.zh-CN.md)

Lines of torch, NCCL, Gloo, launchers, drivers and libraries that unhang reads. Paste such a line whole into
`unhang explain`. `says` is the kind of statement; *benign* rows never become a cause. Operations are named as the
flight recorder names them (`all_reduce`).

Every event may also carry where its line comes from: `group` (GUID), `group_id`, `group_description`, `group_rank`,
`cpp_file`, `cpp_line`, `torch_versions` (tuple of releases), `nccl_pid`, `nccl_device`, and `inside` (id of the message
that held this one). `det.mis` has `mine` and `theirs` as dicts of `position`, `operation`, `shape`, `dtype`.

| kind | says | fields | meaning |
|---|---|---|---|
""",
    "zh": """# unhang 能认出的日志消息

[English](messages.md)

unhang 能读懂的 torch、NCCL、Gloo、启动器、驱动和库的日志行。把这样的一行整个粘贴给 `unhang explain` 即可得到解释。
`says` 是这一行说明了什么；*benign* 的行绝不会成为原因。操作名与 flight recorder 一致（`all_reduce`）。

每个事件还可能带有这一行的来源：`group`（GUID）、`group_id`、`group_description`、`group_rank`、`cpp_file`、`cpp_line`、
`torch_versions`（若干版本）、`nccl_pid`、`nccl_device` 和 `inside`（包含这条消息的消息 id）。`det.mis` 的 `mine` 和
`theirs` 各有 `position`、`operation`、`shape`、`dtype`。

| 消息 | says | 字段 | 含义 |
|---|---|---|---|
""",
}


def messages_page(lang: str = "en") -> str:
    """All known messages as one page of Markdown."""
    return _HEADS[lang] + "".join(_row(row, lang) for row in load_messages())


def _row(row: MessageRow, lang: str) -> str:
    fields = ", ".join(f"`{name}`{_kind(name)}" for name in fields_of(row))
    says = f"{row.says} *(benign)*" if row.benign else row.says
    return f"| `{row.id}` | {says} | {fields} | {table_cell(known(row.meaning, lang))} |\n"


def _kind(name: str) -> str:
    kind = field_type(name)
    return "" if kind == "str" else f" {kind}"
