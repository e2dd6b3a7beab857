"""Map users, hosts, addresses and paths to stable names, so that a report or a case can be shared.

``Redactor(share=False)`` only removes secrets; ``Redactor(share=True)`` also renames. The same name is always given to
the same thing within one run, base names of files, line numbers and ranks stay, and what names a host is learnt before
it is replaced: call :meth:`Redactor.learn` with all texts first when they are read one after another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from unhang.facts.model import Facts
from unhang.findings import Verdict
from unhang.late_pattern import late_pattern
from unhang.report.redaction.contextual_names import rename_in_context
from unhang.report.redaction.host_and_user_names import (
    hosts_in,
    is_address,
    is_generic_address,
    is_private_host,
    is_private_user,
    users_in,
)
from unhang.secrets import value_without_secrets, without_secrets

_LABEL = r"(?:[A-Za-z0-9-]{1,63}|[\u4e00-\u9fff]{1,20})"
_EMAIL = late_pattern(
    r"(?:(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]{1,64}|[\u4e00-\u9fff]{1,8})"
    rf"@{_LABEL}(?:\.{_LABEL}){{0,4}}\.(?:[a-z]{{2,12}}(?![A-Za-z0-9_])|[\u4e00-\u9fff]{{1,8}})(?!:)"
)
_IPV4 = late_pattern(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6 = late_pattern(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?:%\w+)?(?![\w:])"
)
_MAC = late_pattern(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])")
_PATH = late_pattern(r"""(?<![\w.:/<])(?:/[^\s/"'`:,;()<>|\[\]{}\x00!=]+){2,}/?|(?<![\w])[A-Za-z]:\\[^\s"'<>|]+""")

_OPEN_ROOTS = (
    *("/usr/", "/lib/", "/lib64/", "/proc/", "/sys/", "/dev/", "/etc/", "/bin/", "/sbin/", "/boot/", "/run/"),
    *("/default_pg/", "/worker/", "/torchelastic/"),  # keys of a store, not folders
)
_LIBRARY = late_pattern(
    r"^(?P<root>.*?)/(?P<rest>(?:lib(?:64)?/python3[^/]*/)?(?:site-packages|dist-packages)/.*|lib/python3[^/]*/.*"
    r"|(?:torch/csrc|aten/src|c10|third_party)/.*|(?:Python|Modules|Objects)/[\w/]+\.[ch](?::\d+)?)$"
)
_RUN = late_pattern(r"[a-z0-9]+")
_RENAMED = late_pattern(r"^(?:/path-\d+(?:/|$)|(?:host|user|addr|email|bucket)-\d+$)")
_RANK_FOLDER = late_pattern(
    r"^(?:attempt_?\d+|rank[_-]?\d+|local_rank[_-]?\d+|node[_-]?\d+|\d{1,5}|logs?|dumps?|stacks?)$"
)


class Redactor:
    """Rewrites texts: secrets always, names of people, machines and places when ``share`` is true."""

    def __init__(self, *, share: bool = False) -> None:
        self.share = share
        self._names: dict[str, dict[str, str]] = defaultdict(dict)
        self._said: dict[str, str] = {}
        """Lower-cased hosts and users with their names."""
        self._heads: set[str] = set()
        """Their first letters up to a sign: a line without any of them needs no pattern."""
        self._words: re.Pattern[str] | None = None
        self._stale = False

    # -- learning ------------------------------------------------------------------------------------

    def learn(self, text: str) -> None:
        """Note the hosts and users that ``text`` names, so that they are replaced wherever they stand."""
        if not self.share:
            return
        for line in text.split("\n"):
            self._learn_line(line)

    def _learn_line(self, line: str) -> None:
        self.learn_hosts(hosts_in(line))
        for user in users_in(line):
            if is_private_user(user) and not _RENAMED.match(user):
                self._word_for("user", user)

    def learn_hosts(self, hosts: Iterable[str | None]) -> None:
        """Note host names known from elsewhere."""
        for host in hosts:
            if host and is_private_host(host) and not _RENAMED.match(host):
                self._word_for("host", host)

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
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        if "@" in line:
            line = _EMAIL.sub(lambda m: self._name("email", m[0]), line)
        line = rename_in_context(line, self._name, self.path)
        if "/" in line or "\\" in line:
            line = _PATH.sub(lambda m: self.path(m[0]), line)
        colons = line.count(":")
        if colons >= 5:
            line = _MAC.sub(lambda m: self._name("addr", m[0].lower()), line)
        if "::" in line or colons >= 7:
            line = _IPV6.sub(self._address, line)
        if line.count(".") >= 3:
            line = _IPV4.sub(self._address, line)
        words = self._pattern()
        if words is None or self._heads.isdisjoint(_RUN.findall(line.lower())):
            return line
        return words.sub(lambda m: self._said[m[0].lower()], line)

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
            return {self.plain(key): self._value(key, item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.plain(item) for item in value)
        return value

    def _value(self, name: Any, value: Any) -> Any:
        named = isinstance(name, str) and isinstance(value, str)
        return self.plain(value_without_secrets(name, value) if named else value)

    # -- names ---------------------------------------------------------------------------------------

    def _name(self, kind: str, thing: str) -> str:
        names = self._names[kind]
        return names.setdefault(thing, f"{kind}-{len(names) + 1}")

    def _word_for(self, kind: str, word: str) -> None:
        if word.lower() not in self._said:
            self._said[word.lower()] = self._name(kind, word)
            self._heads.update(_RUN.findall(word.lower())[:1])
            self._stale = True

    def _address(self, match: re.Match[str]) -> str:
        found = match[0]
        if not is_address(found) or is_generic_address(found):
            return found
        return self._name("addr", found.lower())

    def _pattern(self) -> re.Pattern[str] | None:
        """Matches hosts and users as whole words; below a path that stays (``/dev/…``) nothing is one."""
        if self._stale:
            words = sorted(self._said, key=lambda word: (-len(word), word))
            joined = "|".join(re.escape(word) for word in words)
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:(?<!/)|(?<=//))(?:{joined})(?![A-Za-z0-9])", re.IGNORECASE)
            self._stale = False
        return self._words
