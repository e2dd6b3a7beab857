"""Map users, hosts, addresses and paths to stable names, so that a report or a case can be shared.

``Redactor(share=False)`` only removes secrets; ``Redactor(share=True)`` also renames. The same name is always given to
the same thing within one run, base names of files, line numbers and ranks stay, and what names a host is learnt before
it is replaced: call :meth:`Redactor.learn` with all texts first when they are read one after another.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any

from unhang.facts.model import Facts
from unhang.findings import Verdict
from unhang.report.secrets import without_secrets

_HOST = r"[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,6}"
_HOST_CONTEXTS = (
    re.compile(rf"(?m)^(?:\[[^\]\n]*\]:?\s*)?(?P<host>{_HOST}):\d+:\d+ (?:\[\d+\] )?NCCL"),
    re.compile(rf"(?m)^[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d (?P<host>{_HOST}) [\w./-]+(?:\[\d+\])?:"),
    re.compile(rf"(?m)^\d{{4}}-\d\d-\d\dT[\d:.+-]+Z? (?P<host>{_HOST}) [\w./-]+(?:\[\d+\])?: "),
    re.compile(
        rf"(?i)\b(?:master_addr|hostname|host|nodename|slurmd_nodename|master_address|rdzv_endpoint)"
        rf"\b[\"']?\s*[=:]\s*[\"']?(?P<host>{_HOST})"
    ),
    re.compile(
        rf"(?i)\b(?:task \d+ on|srun: error:|on node|on host|connect(?:ed)? to|client socket .{{0,40}}to)"
        rf" \[?(?P<host>{_HOST}\d[\w.-]*)"
    ),
    re.compile(rf"\b[a-z][a-z0-9+.-]{{1,20}}://(?:[^\s/@]*@)?(?P<host>{_HOST})(?=[:/\s\"']|$)"),
    re.compile(rf"\b[a-z_][a-z0-9_.-]{{0,31}}@(?P<host>{_HOST})(?=[\s:\])\"',]|$)"),
    re.compile(
        r"\b(?P<host>[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,6}\.(?:local|internal|lan|corp|intra|cluster|svc))\b"
    ),
)
_USER_CONTEXTS = (
    re.compile(r"(?:/home/|/Users/|\\Users\\)(?P<user>[A-Za-z_][\w.-]*)"),
    re.compile(r"\b(?:USER|LOGNAME|SUDO_USER|SLURM_JOB_USER)[\"']?\s*[=:]\s*[\"']?(?P<user>[A-Za-z_][\w.-]*)"),
    re.compile(r"\buid=\d+\((?P<user>[A-Za-z_][\w.-]*)\)"),
    re.compile(rf"(?<![\w./@-])(?P<user>[a-z_][a-z0-9_.-]{{1,31}})@(?={_HOST})"),
)
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.(?:[a-z]{2,12})\b(?!:)"
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:%\w+)?(?![\w:])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])")
_PATH = re.compile(r"""(?<![\w.:/<])(?:/[^\s/"'`:,;()<>|\[\]{}\x00!=]+){2,}/?|(?<![\w])[A-Za-z]:\\[^\s"'<>|]+""")

_OPEN_ADDRESSES = {"127.0.0.1", "0.0.0.0", "255.255.255.255", "::", "::1"}  # noqa: S104  # names, nothing is bound
_OPEN_HOSTS = {"localhost", "localhost.localdomain", "none", "null", "true", "false", "unknown", "env", "static", "tcp"}
_OPEN_USERS = {
    *("root", "user", "ubuntu", "admin", "work", "home", "test", "train", "data", "model", "main", "torch", "nobody"),
    *("python", "conda", "jovyan", "app", "run", "job", "rank", "node", "shared", "public", "git", "sha256"),
}
_OPEN_ROOTS = ("/usr/", "/lib/", "/lib64/", "/proc/", "/sys/", "/dev/", "/etc/", "/bin/", "/sbin/", "/boot/", "/run/")
_LIBRARY = re.compile(
    r"^(?P<root>.*?)/(?P<rest>(?:lib(?:64)?/python3[^/]*/)?(?:site-packages|dist-packages)/.*|lib/python3[^/]*/.*)$"
)
_RENAMED = re.compile(r"^(?:/path-\d+(?:/|$)|(?:host|user|addr|email)-\d+$)")
_RANK_FOLDER = re.compile(
    r"^(?:attempt_?\d+|rank[_-]?\d+|local_rank[_-]?\d+|node[_-]?\d+|\d{1,5}|logs?|dumps?|stacks?)$"
)


class Redactor:
    """Rewrites texts: secrets always, names of people, machines and places when ``share`` is true."""

    def __init__(self, *, share: bool = False) -> None:
        self.share = share
        self._names: dict[str, dict[str, str]] = {"host": {}, "user": {}, "addr": {}, "path": {}, "email": {}}
        self._words: re.Pattern[str] | None = None
        self._stale = False

    # -- learning ------------------------------------------------------------------------------------

    def learn(self, text: str) -> None:
        """Note the hosts and users that ``text`` names, so that they are replaced wherever they stand."""
        if not self.share:
            return
        for pattern in _HOST_CONTEXTS:
            self.learn_hosts(match["host"] for match in pattern.finditer(text))
        for pattern in _USER_CONTEXTS:
            self._learn_users(match["user"] for match in pattern.finditer(text))

    def learn_hosts(self, hosts: Iterable[str | None]) -> None:
        """Note host names known from elsewhere."""
        for host in hosts:
            if (
                host
                and len(host) > 1
                and host.lower() not in _OPEN_HOSTS
                and not _is_address(host)
                and not _RENAMED.match(host)
            ):
                self._name("host", host)

    def _learn_users(self, users: Iterable[str]) -> None:
        for user in users:
            if len(user) > 2 and user.lower() not in _OPEN_USERS and not _RENAMED.match(user):
                self._name("user", user)

    def learn_from(self, verdict: Verdict, facts: Facts | None = None) -> None:
        """Note every host and user that a verdict and its facts name."""
        if not self.share:
            return
        self.learn_hosts(host for finding in verdict.findings for host in finding.nodes)
        self.learn_hosts(verdict.restart.exclude_nodes)
        for finding in verdict.findings:
            for item in finding.evidence:
                self.learn(f"{item.source.path}\n{item.text}")
        if facts is None:
            return
        self.learn_hosts(facts.ranks[rank].host for rank in sorted(facts.ranks))
        for path in (*facts.inputs, *sorted(facts.sources)):
            self.learn(path)

    # -- rewriting -----------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """``text`` without secrets and, when sharing, without names of people, machines and places."""
        text = without_secrets(text)
        if not self.share or not text:
            return text
        self.learn(text)
        text = _EMAIL.sub(lambda m: self._name("email", m[0]), text)
        text = _PATH.sub(lambda m: self.path(m[0]), text)
        text = _MAC.sub(lambda m: self._name("addr", m[0].lower()), text)
        text = _IPV6.sub(self._address, text)
        text = _IPV4.sub(self._address, text)
        words = self._pattern()
        return words.sub(self._word, text) if words else text

    def path(self, path: str) -> str:
        """``path`` with its folder renamed; base name, rank folders and library paths stay readable."""
        if not self.share:
            return without_secrets(path)
        if path.startswith(_OPEN_ROOTS) or _RENAMED.match(path):
            return path
        library = _LIBRARY.match(path)
        if library:
            return f"/{self._name('path', library['root'])}/{library['rest']}"
        parts = path.replace("\\", "/").rstrip("/").split("/")
        if len(parts) < 2 or (parts[0] != "" and not parts[0].endswith(":")):
            return path
        keep = 1
        while keep < len(parts) - 2 and _RANK_FOLDER.match(parts[-keep - 1]):
            keep += 1
        kept = "/".join(parts[-keep:])
        return f"/{self._name('path', '/'.join(parts[:-keep]))}/{kept}"

    def plain(self, value: Any) -> Any:
        """The same tree of dicts, lists, tuples and scalars with every string (keys too) rewritten."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.plain(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.plain(item) for item in value)
        return value

    # -- names ---------------------------------------------------------------------------------------

    def _name(self, kind: str, thing: str) -> str:
        names = self._names[kind]
        if thing not in names:
            names[thing] = f"{kind}-{len(names) + 1}"
            self._stale = True
        return names[thing]

    def _address(self, match: re.Match[str]) -> str:
        found = match[0]
        if found in _OPEN_ADDRESSES or not _is_address(found):
            return found
        return self._name("addr", found.lower())

    def _pattern(self) -> re.Pattern[str] | None:
        if self._stale:
            words = sorted((*self._names["host"], *self._names["user"]), key=lambda word: (-len(word), word))
            joined = "|".join(re.escape(word) for word in words)
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{joined})(?![A-Za-z0-9])", re.IGNORECASE) if words else None
            self._stale = False
        return self._words

    def _word(self, match: re.Match[str]) -> str:
        for kind in ("host", "user"):
            for word, name in self._names[kind].items():
                if word.lower() == match[0].lower():
                    return name
        return match[0]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return True
