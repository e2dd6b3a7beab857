"""Settings in force, and where the library's own word differs from the shell's.

NCCL never overwrites what is set: a value other than the shell's means that the shell's did not reach the rank, and a
file such as ``/etc/nccl.conf`` or a wrapper set another (NCCL 2.30.7 ``src/misc/param.cc``).
"""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.logs.log_statements import quote_event
from unhang.facts.model import Facts
from unhang.findings import Evidence


@dataclass(frozen=True, slots=True)
class LoggedSetting:
    """One variable as somebody printed it. ``by_library``: NCCL parsed it; else a shell or an environment dump."""

    name: str
    value: str
    by_library: bool
    evidence: Evidence


def logged_settings(facts: Facts) -> dict[str, LoggedSetting]:
    """By name; NCCL's own word wins over the shell's."""
    found: dict[str, LoggedSetting] = {}
    for event in facts.events_of("sh.set", "n.env"):
        name = str(event.values.get("name", ""))
        setting = LoggedSetting(name, str(event.values.get("value", "")), event.kind == "n.env", quote_event(event))
        known = found.get(name)
        if known is None or (setting.by_library and not known.by_library):
            found[name] = setting
    return found


def overruled_settings(facts: Facts) -> tuple[tuple[LoggedSetting, LoggedSetting], ...]:
    """(shell's, NCCL's) where the two differ: the shell's did not reach the rank."""
    shell = {
        str(e.values["name"]): LoggedSetting(
            str(e.values["name"]), str(e.values.get("value", "")), False, quote_event(e)
        )
        for e in facts.events_of("sh.set")
    }
    return tuple(
        (shell[setting.name], setting)
        for setting in logged_settings(facts).values()
        if setting.by_library and setting.name in shell and shell[setting.name].value != setting.value
    )
