"""Secrets that their place tells: in a URL, a header, a cookie, a known command, a file of passwords, a key's block."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.late_pattern import late_pattern
from unhang.secrets.line_filter import HintedLines

_URL = (
    late_pattern(r"\b[a-z][a-z0-9+.-]{1,20}://(?P<secret>[^\s/@\"'<>]{1,512})@", re.IGNORECASE),
    late_pattern(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{1,200}:(?P<secret>[^\s@\"'<>]{1,512})@", re.IGNORECASE),
    late_pattern(
        r"://(?:hooks\.slack\.com/(?:services|workflows|triggers)|[\w.-]{1,200}/open-apis/bot/v2/hook"
        r"|[\w.-]{0,100}discord(?:app)?\.com/api/webhooks|[\w.-]{1,100}\.webhook\.office\.com/webhookb2"
        r"|hooks\.zapier\.com/hooks/catch|[\w.-]{0,100}ftqq\.com|api\.day\.app)/(?P<secret>[^\s\"'<>]+)",
        re.IGNORECASE,
    ),
    late_pattern(r"://[\w.-]{1,200}/t/(?P<secret>[a-z]{2}-[0-9a-f-]{30,64})/", re.IGNORECASE),
    late_pattern(r"/bot(?P<secret>\d{5,16}:[\w-]{20,})", re.IGNORECASE),
)
_QUERY = late_pattern(
    r"[?&;](?:[\w.-]{0,64}(?:token|key|key_?id|secret|password|passwd|pwd|sig|signature|credential|auth|code))="
    r"(?P<secret>[^\s&#\"'<>]{6,})",
    re.IGNORECASE,
)
_HEADERS = (
    late_pattern(
        r"\b(?:bearer|basic|token|apikey|negotiate)\s+(?P<secret>(?=[^\s]*\d)[A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE
    ),
    late_pattern(r"\bauthorization[\"']?\s*[:=,]\s*[\"']?(?:\w+\s+)?(?P<secret>[^\s\"',;]{6,})", re.IGNORECASE),
    late_pattern(
        r"\b(?:x-)?[\w-]{0,40}(?:api-?key|-token|-team|-secret)[\"']?\s*[:,]\s*[\"']?(?P<secret>[\w.~+/=-]{8,})",
        re.IGNORECASE,
    ),
)
_COOKIE_LINE = late_pattern(r"\b(?:set-)?cookies?[\"']?\s*[:=]\s*(?P<jar>[^\n]{4,4096})", re.IGNORECASE)
_CRUMB = late_pattern(r"[\w.-]{1,64}[\"']?\s*[=:]\s*[\"']?(?P<secret>(?=[^;,\s\"'}]*\d)[^;,\s\"'}]{12,})")
_VALUE = r"(?:\"(?P<d>[^\"\n]{2,200})\"|'(?P<s>[^'\n]{2,200})'|(?P<b>[^\s\"'|;&-][^\s\"'|;&]*))"
_MIDDLE = r"\b[^|;&\n]{0,300}?\s"


def _command(names: str, value: str) -> re.Pattern[str]:
    return late_pattern(rf"(?<![\w.-])(?:{names}){_MIDDLE}{value}")


_COMMANDS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (("sshpass",), _command("sshpass", rf"-p\s?{_VALUE}")),
    (("mysql", "mariadb", "mongo"), _command(r"mysql\w*|mariadb\w*", rf"-p{_VALUE}")),
    (("mongo",), _command(r"mongo\w*", rf"-p\s{_VALUE}")),
    (("curl", "wget", "http"), _command(r"curl|https?", rf"(?:-u|--user|--proxy-user|-U|-a|--auth)[\s=]?{_VALUE}")),
    (
        ("login",),
        _command(r"(?:docker|podman|nerdctl|helm|oras|az|oc|buildah|skopeo)\b[^|;&\n]{0,60}?\blogin", rf"-p\s{_VALUE}"),
    ),
    (("twine", "ldap", "htpasswd"), _command(r"twine|ldap\w+", rf"-[pw]\s{_VALUE}")),
    (
        ("htpasswd",),
        late_pattern(rf"\bhtpasswd\s[^|;&\n]{{0,60}}?-\w*b\w*(?:\s+[^\s|;&]+){{1,2}}?\s+{_VALUE}\s*(?:$|[|;&>])"),
    ),
    (("plink", "pscp", "psftp"), _command("plink|pscp|psftp", rf"-pw\s{_VALUE}")),
    (("redis-cli",), _command("redis-cli", rf"-a\s{_VALUE}")),
    (("smbclient", "rpcclient", "smbmap"), _command(r"smbclient|rpcclient", rf"-U\s?[\w.\\-]+%{_VALUE}")),
    (("pass:",), late_pattern(rf"\bpass:{_VALUE}")),
    (("zip", "7z", "rar", "mosquitto"), _command(r"(?:un)?zip|mosquitto_\w+", rf"-P\s{_VALUE}")),
    (("7z", "rar"), _command(r"7z\w*|(?:un)?rar", rf"-p{_VALUE}")),
    (("login",), _command(r"\w+\s(?:cloud\s)?login", rf"(?:-k|--key)\s{_VALUE}")),
    (
        ("echo",),
        late_pattern(
            rf"\becho\s+(?:-n\s+)?{_VALUE}\s*\|\s*(?:sudo|su|kinit|passwd|cryptsetup|openconnect|docker|gpg)\b"
        ),
    ),
    (("chpasswd",), late_pattern(rf"\becho\s+[\"']?[\w.-]+:{_VALUE}[\"']?\s*\|\s*(?:sudo\s+)?chpasswd")),
    (("alias set",), late_pattern(r"\balias set\s+\S+\s+\S+\s+(?P<d>\S+)\s+(?P<b>\S+)")),
    (("ossutil", "coscli", "obsutil", "coscmd"), _command(r"ossutil\w*|coscli|obsutil|coscmd", rf"-[iks]\s{_VALUE}")),
    (("send",), late_pattern(r"\bsend\s+(?:--\s+)?\"(?P<d>[^\"\\\n]{4,200})\\[rn]")),
    (
        ("@",),
        late_pattern(
            r"(?<![\w/:])[A-Za-z_][\w.-]{0,63}:(?P<s>(?=[^\s@]*\d)(?=[^\s@]*[A-Za-z])[^\s@:/\"']{4,64})@[A-Za-z]"
        ),
    ),
    (("lftp",), _command("lftp", rf"-u\s[\w.-]+,{_VALUE}")),
    (
        ("auth=(", ".login("),
        late_pattern(r"(?:\bauth=|\.login)\(\s*[\"'][^\"'\n]{0,100}[\"']\s*,\s*[\"'](?P<s>[^\"'\n]{2,200})[\"']"),
    ),
)
_FILES = (
    late_pattern(r"\bmachine\s+\S+\s[^\n]{0,200}?\bpassword\s+(?P<secret>\S{3,})"),
    late_pattern(r"^\s*password\s+(?P<secret>\S{3,})\s*$"),
    late_pattern(r"^[\w.*-]+:(?:\d{2,5}|\*):[^:\s]+:[^:\s]+:(?P<secret>[^:\s]{4,})$"),
    late_pattern(r"\"auth\"\s*:\s*\"(?P<secret>[A-Za-z0-9+/=]{8,})\""),
    late_pattern(r"\bvalue:\s*[\"']?(?P<secret>(?=[^\s\"']*\d)[A-Za-z0-9+/=_-]{20,})"),
    late_pattern(r"\bPrivate-MAC:\s*(?P<secret>[0-9a-f]{32,})"),
)
_BLOCKS = late_pattern(
    r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?P<secret>.{0,16384}?)"
    r"(?:-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\bPrivate-Lines: \d+\n(?P<putty>(?:[A-Za-z0-9+/=]{1,64}(?:\n|\Z)){1,200})",
    re.DOTALL,
)
_GROUPS: tuple[tuple[tuple[str, ...], tuple[re.Pattern[str], ...]], ...] = (
    (("://", "/bot"), _URL),
    (
        ("token=", "key=", "id=", "secret=", "passw", "pwd=", "sig=", "signature=", "credential=", "auth=", "code="),
        (_QUERY,),
    ),
    (
        ("bearer", "basic ", "token ", "apikey", "negotiate", "authorization", "-key", "-token", "-team", "-secret"),
        _HEADERS,
    ),
    (("machine ", "password", ":5432:", ":3306:", ":*:", '"auth"', "value:", "private-mac"), _FILES),
    *((hints, (pattern,)) for hints, pattern in _COMMANDS),
)
"""Literals, in lower case, of which one stands in every line that the patterns match."""


_JAR_HINTS = ("cookie",)
HINTS = tuple(dict.fromkeys((*_JAR_HINTS, *(hint for hints, _ in _GROUPS for hint in hints))))


def secret_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where in ``text`` (of many lines) the bodies of private keys stand."""
    if "PRIVATE KEY" not in text and "Private-Lines" not in text:
        return
    for match in _BLOCKS.finditer(text):
        yield match.span("secret") if match["secret"] is not None else match.span("putty")


def secrets_in_places(lines: HintedLines) -> Iterator[tuple[int, int]]:
    """Where secrets stand that only their place tells."""
    for hints, patterns in _GROUPS:
        for at, line in lines.with_any(hints):
            for pattern in patterns:
                yield from _values(pattern, line, at)
    for at, line in lines.with_any(_JAR_HINTS):
        jar = _COOKIE_LINE.search(line)
        if jar is not None:
            yield from (
                (at + crumb.start("secret"), at + crumb.end("secret"))
                for crumb in _CRUMB.finditer(line, jar.start("jar"))
            )


def _values(pattern: re.Pattern[str], line: str, at: int) -> Iterator[tuple[int, int]]:
    names = pattern.groupindex
    for match in pattern.finditer(line):
        yield from ((at + match.start(name), at + match.end(name)) for name in names if match[name] is not None)
