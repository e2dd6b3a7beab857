"""Whether the rules of ``iptables -S`` let a new TCP connection in on a port."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from unhang.check.network.network import Firewall
from unhang.knowledge import numbers

_DEPTH = 8
_VERDICTS = {"ACCEPT": "open", "DROP": "closed", "REJECT": "closed"}
_ONLY_SOME = ("-s", "--source", "-d", "--destination", "-i", "--in-interface", "!")
_KNOWN_MATCHES = ("tcp", "comment", "state", "conntrack", "multiport")


@dataclass(frozen=True, slots=True)
class FirewallDecision:
    """``verdict``: ``open``, ``closed``, or ``unsure`` (it depends on who asks); ``rule``: the one that decides."""

    verdict: str
    rule: str = ""


def firewall_decision(firewall: Firewall, port: int) -> FirewallDecision:
    """Follow the rules of INPUT for a new connection from another node to ``port``."""
    found = _walk(firewall, "INPUT", port, _DEPTH)
    if found is not None:
        return found
    policy = firewall.policies.get("INPUT", "ACCEPT")
    return FirewallDecision(_VERDICTS.get(policy, "unsure"), f"-P INPUT {policy}")


def _walk(firewall: Firewall, chain: str, port: int, depth: int) -> FirewallDecision | None:
    doubtful = False
    for rule in firewall.chains.get(chain, ()):
        words = _words(rule)
        target = _value(words, "-j", "--jump") or _value(words, "-g", "--goto")
        if not _concerns(words, port):
            continue
        verdict = _VERDICTS.get(target)
        if verdict is None:
            below = _walk(firewall, target, port, depth - 1) if depth and target in firewall.chains else None
            if below is not None:
                return below
            if target == "RETURN" and not _some_only(words):
                return None
            continue
        if _some_only(words):
            doubtful = True
            continue
        return FirewallDecision("unsure" if doubtful and verdict == "closed" else verdict, rule)
    return FirewallDecision("unsure", f"-P {chain}") if doubtful and firewall.policies.get(chain) == "DROP" else None


def _words(rule: str) -> list[str]:
    try:
        return shlex.split(rule)
    except ValueError:
        return rule.split()


def _value(words: list[str], *names: str) -> str:
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word in names), "")


def _concerns(words: list[str], port: int) -> bool:
    """Whether a rule may be about a new TCP connection to ``port`` from outside."""
    protocol = _value(words, "-p", "--protocol")
    if _value(words, "-i", "--in-interface") == "lo" or protocol not in ("", "tcp", "all", "6"):
        return False
    states = _value(words, "--ctstate", "--state")
    if states and "NEW" not in states.split(","):
        return False
    ports = _value(words, "--dport", "--dports", "--destination-port", "--destination-ports")
    return not ports or any(_holds(part, port) for part in ports.split(","))


def _holds(part: str, port: int) -> bool:
    low, _, high = part.partition(":")
    first, last = numbers.integer(low), numbers.integer(high or low)
    return first is not None and last is not None and first <= port <= last


def _some_only(words: list[str]) -> bool:
    """It is about some senders only, or tests what we do not know."""
    matches = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-m", "--match")]
    return any(word in _ONLY_SOME for word in words) or any(match not in _KNOWN_MATCHES for match in matches)
