"""Secrets that a name tells: ``DB_PASS=…``, ``"api_key": "…"``, ``--token …``, ``密码：…``, ``the password is …``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.late_pattern import late_pattern
from unhang.secrets.line_filter import HintedLines, in_lower_case
from unhang.secrets.secrets_by_shape import is_random


def _as_json(*words: str) -> Iterator[str]:
    """Those of ``words`` that JSON writes in escapes, as it does by default, in lower case."""
    escaped = ("".join(one if one.isascii() else f"\\u{ord(one):04x}" for one in word) for word in words)
    return (word for word in escaped if "\\" in word)


_SURE = (
    r"passw(?:or)?d\d?|passphrase|passcode|pass(?<![A-Za-z]pass)|pswd|pwd|secret|secret[-_]?id|api[-_ ]?key"
    r"|app[-_]?key|access[-_]?key(?:[-_]?(?:id|secret))?|private[-_]?key|secret[-_]?key|auth[-_]?key|account[-_]?key"
    r"|license[-_]?key|signing[-_]?key|encryption[-_]?key|credentials?|_pat|_auth|_cookie"
    r"|(?:ssh|db|user|smtp|mail|ftp|root|admin|bind|ldap|require)(?:pass|pw)|pw(?<![a-z0-9]pw)|sk(?<![a-z0-9]sk)"
    r"|ak(?<![a-z0-9]ak)"
)
_OF_TEXT = "pad|eos|bos|unk|sep|cls|mask|per|next|image|stop|special|first|last"
_ACCESS = "token" + "".join(rf"(?<!{kind}[-_]token)" for kind in _OF_TEXT.split("|"))
_FOREIGN = (
    *("密码", "密钥", "密匙", "令牌", "口令", "秘钥", "パスワード", "비밀번호", "пароль"),
    *("passwort", "kennwort", "contraseña", "senha"),
)
_ELSEWHERE = "|".join(("mot de passe", *_FOREIGN, *map(re.escape, _as_json(*_FOREIGN))))
_NAME = rf"(?:(?:{_SURE}|{_ACCESS})(?![A-Za-z0-9_])|{_ELSEWHERE})"
_QUOTE = r"(?:\\{0,3}[\"'`])"
_QUOTED = r"(?P<quote>\\{0,3}[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\n]){3,4096})(?P=quote)"
_BARE = r"(?P<bare>[^\s\"'`&;,<>()\[\]{}|\\：，。；]{4,4096})"
_SIGNS = "|".join(("：", "＝", "是", "为", *map(re.escape, _as_json("：", "＝", "是", "为"))))
_GLUE = rf"{_QUOTE}?\s{{0,4}}(?:=>|:=|[=:>]|{_SIGNS}|,\s?(?=[\"'])|\b(?:is|was)\b)\s{{0,4}}(?:\$\{{\w{{1,64}}:-)?"
_ASSIGNED = late_pattern(rf"(?P<name>{_NAME})(?P<glue>{_GLUE})(?:{_QUOTED}|{_BARE})")
_BESIDE = late_pattern(
    rf"(?P<name>(?:--[\w.-]{{0,64}}?{_NAME}|\b(?:passw(?:or)?d|passphrase|token|secret|api[-_ ]key)|(?:{_ELSEWHERE})"
    rf"|\b(?:require|bind|root)(?:pass|pw)|\b[\w-]*(?:secret|access)[-_]\w*key))(?P<glue>\s{{1,4}})(?:{_QUOTED}|{_BARE})"
)
NAMING = late_pattern(rf"--[\w.-]{{0,64}}?{_NAME}", re.IGNORECASE)
"""An option whose value is a secret."""
HINTS = (
    *("pass", "pwd", "pswd", "bindpw", "rootpw", "userpw", "dbpw", "ldappw", "secret", "token", "key", "credential"),
    *("_pat", "_auth", "_cookie", "sk=", "ak=", "sk:", "ak:", 'sk"', 'ak"', "sk'", "ak'"),
    *("pw=", "pw:", "-pw ", 'pw"', "pw'"),
    *("mot de", *_FOREIGN, *_as_json(*_FOREIGN)),
)
"""One of these stands, in lower case, in every line with a name."""

_NO_SECRET = late_pattern(
    r"(?:none|null|nil|true|false|yes|no|str|int|bytes|bool|string|optional\S*|required|default|unset|empty|missing"
    r"|invalid|wrong|expired|authentication|env|environ|file|prompt|stdin|here|not|and|for|from|with|failed|must|error"
    r"|self\..*|args\..*|os\..*|config\..*|cfg\..*|getenv.*|getpass.*|lambda|[*x.…-]+|\$\{?\w+\}?|%\w|@\w+@|<.*)$",
    re.IGNORECASE,
)
_NUMBER = late_pattern(r"[-+]?[\d.,_]+(?:e[-+]?\d+)?(?:[a-z%/]{0,3})$", re.IGNORECASE)
_IDENTIFIER = late_pattern(r"[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_]\w*)*$")
_DIGIT = late_pattern(r"\d")


def secret_values(lines: HintedLines) -> Iterator[tuple[int, int]]:
    """Where values stand whose names say that they are secrets."""
    for at, line in lines.with_any(HINTS):
        lowered = in_lower_case(line)  # names are matched without regard to case, which patterns do slowly
        for match in _ASSIGNED.finditer(lowered):
            start, end = _place(match)
            if _is_value(match, line[start:end]):
                yield at + start, at + end
        for match in _BESIDE.finditer(lowered):
            start, end = _place(match)
            if _is_beside(match, line[start:end]):
                yield at + start, at + end


def _place(match: re.Match[str]) -> tuple[int, int]:
    return match.span("bare") if match["bare"] is not None else match.span("quoted")


def _is_value(match: re.Match[str], value: str) -> bool:
    name = match["name"]
    if _NO_SECRET.match(value) or value.lower() == name:
        return False
    if "," in match["glue"]:
        return is_random(value) or _has_digits(value)  # a list of words, or of a command's
    if match["bare"] is None:
        return not (name.endswith("token") and _NUMBER.match(value) and len(value) < 9)
    if name.endswith("pwd") and value.startswith(("/", "~")):
        return False
    if name.endswith(
        ("token", "pass", "_auth", "cookie", "pw", "sk", "ak")
    ):  # words of programs too: a token is no password
        return is_random(value) or _has_digits(value)
    if match["glue"].strip(" \"'\\`") in ("=", "") and _IDENTIFIER.match(value) and " " in match["glue"]:
        return False  # a program: password = ask()
    return not (_NUMBER.match(value) and len(value) < 6)


def _is_beside(match: re.Match[str], value: str) -> bool:
    """Behind a name without any sign: an option's value, or what a sentence quotes."""
    if _NO_SECRET.match(value) or value.startswith("-"):
        return False
    if match["name"].startswith("--") or match["bare"] is None:
        return len(value) > 3
    return _has_digits(value)


def _has_digits(value: str) -> bool:
    return len(value) >= 6 and _DIGIT.search(value) is not None and not _NUMBER.match(value)
