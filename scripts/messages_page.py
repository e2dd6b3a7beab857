"""The page ``docs/messages.md``: every message kind with what it says and its fields.

Written by ``python -m scripts.messages_page > docs/messages.md``; a test keeps it current.
"""

from __future__ import annotations

from unhang.knowledge.messages import MessageRow, field_type, fields_of, load_messages

_HEAD = """# Messages unhang recognises in logs

Generated from `src/unhang/knowledge/messages/*.toml`. `says` is the kind of statement; *benign* rows never become a
cause. Operations are named as the flight recorder names them (`all_reduce`). Every event may also carry what its line
tells of its origin: `group` (GUID), `group_id`, `group_description`, `group_rank`, `cpp_file`, `cpp_line`,
`torch_versions` (tuple of releases), `nccl_pid`, `nccl_device`, and `inside` (id of the message that held this one).
`det.mis` has `mine` and `theirs` as dicts of `position`, `operation`, `shape`, `dtype`.

| kind | says | fields | meaning |
|---|---|---|---|
"""


def messages_page() -> str:
    """All known messages as one page of Markdown."""
    return _HEAD + "".join(_row(row) for row in load_messages())


def _row(row: MessageRow) -> str:
    fields = ", ".join(f"`{name}`{_kind(name)}" for name in fields_of(row))
    says = f"{row.says} *(benign)*" if row.benign else row.says
    return f"| `{row.id}` | {says} | {fields} | {row.meaning.replace('|', chr(92) + '|')} |\n"


def _kind(name: str) -> str:
    kind = field_type(name)
    return "" if kind == "str" else f" {kind}"


if __name__ == "__main__":
    print(messages_page(), end="")
