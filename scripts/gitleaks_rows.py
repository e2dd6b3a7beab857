"""Restate the rules of gitleaks as the rows of ``src/unhang/secrets/gitleaks.tsv``.

    python scripts/gitleaks_rows.py path/to/gitleaks/config/gitleaks.toml > src/unhang/secrets/gitleaks.tsv

Kept are rules that tell a secret by its own letters (``shape``) and those that need a service's name before it
(``near``). Left out: rules about whole files and commands, which ``secrets/secrets_by_place.py`` covers, and the
generic ones, which ``secrets/secrets_by_name.py`` covers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomllib

_ASSIGNED = r"""[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
_ASSIGNED_CLOSED = r"""[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
_ENDS = (
    r"""(?:[\x60'"\s;]|\\[nr]|$)""",
    r"""(?:[\x60'"\s;]|\\[nr]|$|\b)""",
    r"(?:[^\w-]|\z)",
    r"(?:[^a-zA-Z0-9+/]|\z)",
    r"""(?:$|[\\'"\x60\s<),])""",
)
_START = r"""(?:^|[\\'"\x60\s>=:(,)])"""
_ELSEWHERE = {
    *("curl-auth-header", "curl-auth-user", "private-key", "kubernetes-secret-yaml", "nuget-config-password"),
    *("freemius-secret-key", "sidekiq-sensitive-url", "generic-api-key", "hashicorp-tf-password", "jwt-base64"),
    *("microsoft-teams-webhook", "slack-webhook-url", "gitlab-session-cookie", "facebook-access-token"),
}
_TOO_WIDE = {
    "octopus-deploy-api-key": None,
    "jwt": None,  # its literal is too short; words.py has it
    "twilio-api-key": None,
    "sourcegraph-access-token": r"\bsgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}",  # else any commit hash is one
    "vault-service-token": r"\bhvs\.[\w-]{90,120}",  # else any word after "s." is one
    "clickhouse-cloud-api-secret-key": None,  # a commit hash may begin with 4b1d
}
"""Rules that ordinary words of a log meet too; the pattern that stays, None where none does."""


def rows(rules: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str, str]]:
    """(kind, id, literals, service, pattern) of each rule that is kept."""
    for rule in rules:
        name, pattern, literals = rule["id"], rule.get("regex"), " ".join(rule.get("keywords", ()))
        if pattern is None or name in _ELSEWHERE:
            continue
        if name in _TOO_WIDE:
            if (narrow := _TOO_WIDE[name]) is not None:
                yield "shape", name, literals, "", narrow
            continue
        glue = next((glue for glue in (_ASSIGNED_CLOSED, _ASSIGNED) if glue in pattern), None)
        if glue is None:
            yield "shape", name, literals, "", _as_python(_without_end(pattern))
            continue
        before, _, value = pattern.partition(glue)
        yield "near", name, literals, _service(before), _as_python("(?i)" + _without_end(value.partition("|\\b(")[0]))


def _without_end(pattern: str) -> str:
    for end in _ENDS:
        pattern = pattern.removesuffix(end)
    return pattern.removeprefix(_START)


def _service(before: str) -> str:
    """The alternation of names, without what stands around it in every rule."""
    core = before.removesuffix(r"(?:[ \t\w.-]{0,20})")
    core = re.sub(r"^(?:\[\\w\.-\]\{0,50\}\?)?\(\?i[):](?:\[\\w\.-\]\{0,50\}\?)?", "", core)
    return _as_python(core)


def _as_python(pattern: str) -> str:
    """RE2's dialect in Python's: a flag in the middle is bound to what follows it in its group."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    at = pattern.rfind("(?i)")
    while at >= 0:
        end = _end_of_group(pattern, at + 4)
        pattern = f"{pattern[:at]}(?i:{pattern[at + 4 : end]}){pattern[end:]}"
        at = pattern.rfind("(?i)")
    return pattern


def _end_of_group(pattern: str, at: int) -> int:
    depth, inside = 0, False
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 1
        elif letter in "[]":
            inside = letter == "["
        elif letter == "(" and not inside:
            depth += 1
        elif letter == ")" and not inside:
            if depth == 0:
                return at
            depth -= 1
        at += 1
    return at


def main() -> None:
    """Print the table."""
    rules = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["rules"]
    print("# The rules of gitleaks (https://github.com/gitleaks/gitleaks, config/gitleaks.toml), restated by")
    print("# scripts/gitleaks_rows.py. MIT License, Copyright (c) 2019 Zachary Rice; the licence stands in")
    print("# gitleaks.LICENSE. Columns: kind, id, literals of which one is near, names of the service, pattern.")
    for row in rows(rules):
        re.compile(row[3])
        re.compile(row[4])
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
