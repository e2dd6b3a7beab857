"""Find the hosts and users a line of a log names, from the places where only a host or a user can stand.

Every pattern has a hint that is looked for first, so that ordinary lines cost little, and every repetition has a limit,
so that hostile ones cost no more than their length.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from unhang.late_pattern import late_pattern

_HOST = r"[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,6}"
_SETTING = late_pattern(
    r"\b(?:master_addr|hostname|host|nodename|slurmd_nodename|master_address|rdzv_endpoint)"
    rf"\b[\"']?\s*[=:]\s*[\"']?(?P<host>{_HOST})",
    re.IGNORECASE,
)
_SPOKEN = late_pattern(
    r"\b(?:task \d+ on|srun: error:|on node|on host|connect(?:ed)? to|client socket .{0,40}to)"
    rf" \[?(?P<host>{_HOST}\d[\w.-]*)",
    re.IGNORECASE,
)
_NCCL = late_pattern(rf"(?<![\w.-])(?P<host>{_HOST}):\d+:\d+ (?:\[\d+\] )?NCCL")
_SYSLOG = late_pattern(rf"[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d (?P<host>{_HOST}) [\w./-]+(?:\[\d+\])?:")
_JOURNAL = late_pattern(rf"\d{{4}}-\d\d-\d\dT[\d:.+-]+Z? (?P<host>{_HOST}) [\w./-]+(?:\[\d+\])?: ")
_URL = late_pattern(rf"\b[a-z][a-z0-9+.-]{{1,20}}://(?:[^\s/@]{{0,512}}@)?(?P<host>{_HOST})(?=[:/\s\"']|$)")
_LOGIN = late_pattern(rf"(?<![\w./@-])(?P<user>[a-z_][a-z0-9_.-]{{0,31}})@(?P<host>{_HOST})(?=[\s:\])\"',]|$)")
_DOMAIN = late_pattern(
    r"(?<![\w.-])(?P<host>[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,6}"
    r"\.(?:local|internal|lan|corp|intra|cluster|svc))\b"
)
_HOME = late_pattern(r"(?:/home/|/Users/|\\Users\\)(?P<user>[A-Za-z_][\w.-]{0,63})")
_USER_SETTING = late_pattern(
    r"\b(?:USER|LOGNAME|SUDO_USER|SLURM_JOB_USER)[\"']?\s*[=:]\s*[\"']?(?P<user>[A-Za-z_][\w.-]{0,63})"
)
_UID = late_pattern(r"\buid=\d+\((?P<user>[A-Za-z_][\w.-]{0,63})\)")

_SETTING_HINTS = ("host", "master_addr", "nodename", "rdzv_endpoint")
_SPOKEN_HINTS = (" on ", "srun: error", "connect", "client socket")
_DOMAINS = (".local", ".internal", ".lan", ".corp", ".intra", ".cluster", ".svc")

_OPEN_HOSTS = frozenset(
    (
        *("localhost", "localhost.localdomain", "none", "null", "true", "false", "unknown", "env", "static", "tcp"),
        *("pytorch.org", "github.com", "huggingface.co", "docs.nvidia.com", "developer.nvidia.com", "pypi.org"),
    )
)
# Words that are user names somewhere and plain words everywhere else.
_OPEN_USERS = frozenset(
    (
        *("root", "user", "users", "ubuntu", "admin", "work", "home", "test", "train", "trainer", "data", "model"),
        *(
            "main",
            "torch",
            "nobody",
            "python",
            "conda",
            "jovyan",
            "app",
            "run",
            "job",
            "jobs",
            "rank",
            "node",
            "shared",
        ),
        *(
            "public",
            "git",
            "sha256",
            "dev",
            "ops",
            "gpu",
            "slurm",
            "ray",
            "spark",
            "nvidia",
            "service",
            "batch",
            "deploy",
        ),
    )
)


def hosts_in(line: str) -> Iterator[str]:
    """Host names in one line; addresses, ``localhost`` and public sites are none."""
    lowered = line.lower()
    if "NCCL" in line:
        yield from _names_matched(_NCCL, line)
    if line[:1].isupper() and (syslog := _SYSLOG.match(line)):
        yield syslog["host"]
    if line[:1].isdigit() and (journal := _JOURNAL.match(line)):
        yield journal["host"]
    if any(hint in lowered for hint in _SETTING_HINTS):
        yield from _names_matched(_SETTING, line)
    if any(hint in lowered for hint in _SPOKEN_HINTS):
        yield from _names_matched(_SPOKEN, line)
    if "://" in line:
        yield from _names_matched(_URL, line)
    if "@" in line:
        yield from _names_matched(_LOGIN, line)
    if any(hint in lowered for hint in _DOMAINS):
        yield from _names_matched(_DOMAIN, line)


def users_in(line: str) -> Iterator[str]:
    """User names in one line."""
    if "/home/" in line or "Users" in line:
        yield from _names_matched(_HOME, line, "user")
    if "USER" in line or "LOGNAME" in line:
        yield from _names_matched(_USER_SETTING, line, "user")
    if "uid=" in line:
        yield from _names_matched(_UID, line, "user")
    if "@" in line:
        yield from _names_matched(_LOGIN, line, "user")


def _names_matched(pattern: re.Pattern[str], line: str, kind: str = "host") -> Iterator[str]:
    return (match[kind] for match in pattern.finditer(line))


def is_private_host(host: str) -> bool:
    """Whether ``host`` is the name of somebody's machine."""
    return len(host) > 1 and host.lower() not in _OPEN_HOSTS and not is_address(host)


def is_private_user(user: str) -> bool:
    """Whether ``user`` is a name that can be replaced wherever it stands."""
    return len(user) > 2 and user.lower() not in _OPEN_USERS


def is_generic_address(text: str) -> bool:
    """Whether every machine has that address: it tells nothing, and that it was used may be the cause."""
    address = ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    return address.is_loopback or address.is_unspecified or address.is_link_local or text == "255.255.255.255"


def is_address(text: str) -> bool:
    """Whether ``text`` is an IPv4 or IPv6 address, with or without a zone."""
    try:
        ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return True
