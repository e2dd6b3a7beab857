"""Take tokens, keys and passwords out of a text. Always done, asked for or not: secrets are never stored or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

REMOVED = "[removed]"

# A name that *ends* in one of these words carries a secret; `max_tokens=512` and `TOKENIZERS_PARALLELISM` do not.
_GUARDED = (
    r"(?:[\w.-]{0,64}?(?:password|passwd|passphrase|secret|api[-_]?key|access[-_]?key(?:[-_]id)?|private[-_]?key"
    r"|secret[-_]?key|auth[-_]?key|credentials?|auth[-_]?token)"
    r"|(?:[\w.-]{0,64}?(?<!pad[-_])(?<!eos[-_])(?<!bos[-_])(?<!unk[-_])(?<!sep[-_])(?<!cls[-_])(?<!mask[-_])"
    r"(?<!per[-_])(?<!next[-_])(?<!image[-_]))token)"
)
_ASSIGNED = re.compile(
    rf"""(?P<name>(?<![\w.-]){_GUARDED})(?P<glue>["']?\s*(?:=|:)\s*|["']?\s*=>\s*)"""
    r"""(?P<value>"[^"\n]{4,4096}"|'[^'\n]{4,4096}'|[^\s"'&;,<>()\[\]{}]{6,})""",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"(?P<name>--{_GUARDED}\s+)(?P<value>[^\s-][^\s]{{3,}})", re.IGNORECASE)
_QUERY = re.compile(
    r"(?P<name>[?&](?:[\w.-]{0,64}(?:token|key|secret|password|sig|signature|credential))=)(?P<value>[^\s&#\"']+)",
    re.IGNORECASE,
)
_NAMING = re.compile(rf"--{_GUARDED}", re.IGNORECASE)
_HOOK = re.compile(
    r"(?P<name>://(?:hooks\.slack\.com/(?:services|workflows|triggers)|[\w.-]{1,200}/open-apis/bot/v2/hook"
    r"|[\w.-]{0,100}discord(?:app)?\.com/api/webhooks|[\w.-]{1,100}\.webhook\.office\.com/webhookb2)/)[^\s\"'<>]+",
    re.IGNORECASE,
)
"""Who has such an address may post there."""
_USERINFO = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,20}://)(?P<who>[^\s/@\"'<>]{1,512})@", re.IGNORECASE)
_BEARER = re.compile(r"\b(?P<name>Bearer|Basic|Token)\s+(?P<value>[A-Za-z0-9._~+/=-]{12,})")
_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)"
)


# Every secret shows one of these in lower case; a line without any needs no pattern.
_HINTS = (
    *("token", "secret", "passw", "passphrase", "key", "credential", "signature", "sig=", "://", "bearer", "basic "),
    *(
        "hf_",
        "sk-",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "akia",
        "asia",
        "xox",
        "aiza",
        "eyj",
    ),
)


def without_secrets(text: str) -> str:
    """``text`` with every secret that shows by its shape, its name or its place in a URL replaced by ``[removed]``."""
    if "-----BEGIN" in text:
        text = _BLOCK.sub(REMOVED, text)
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    return "\n".join(_line(line) for line in text.split("\n"))


def words_without_secrets(words: Iterable[str]) -> list[str]:
    """A command line without secrets; the word after an option that names one is one, whatever it looks like."""
    return list(_words(words))


def _words(words: Iterable[str]) -> Iterator[str]:
    for before, word in pairwise(("", *words)):
        named = _NAMING.fullmatch(before) is not None and len(word) > 3 and not word.startswith("-")
        yield REMOVED if named else without_secrets(word)


def _line(line: str) -> str:
    lowered = line.lower()
    if not any(hint in lowered for hint in _HINTS):
        return line
    if "://" in line:
        line = _USERINFO.sub(rf"\g<scheme>{REMOVED}@", line)
        line = _HOOK.sub(rf"\g<name>{REMOVED}", line)
    if "=" in line:
        line = _QUERY.sub(rf"\g<name>{REMOVED}", line)
    line = _SHAPES.sub(REMOVED, line)
    line = _BEARER.sub(rf"\g<name> {REMOVED}", line)
    if "--" in line:
        line = _OPTION.sub(rf"\g<name>{REMOVED}", line)
    return _ASSIGNED.sub(_assigned, line)


def _assigned(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith(REMOVED[:4]) or REMOVED in value:
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{match['glue']}{quote}{REMOVED}{quote}"
