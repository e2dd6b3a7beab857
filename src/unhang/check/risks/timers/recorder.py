"""No evidence is left when the watchdog fires.

What happens: torch's flight recorder is off by default up to 2.10 (2.6 to 2.10 write a dump without entries);
blocking wait takes away the watchdog that would write it; a switch turns the dump off.

Why it hangs: it does not; but after a stall nobody can tell who called what.

Example: ``TORCH_NCCL_TRACE_BUFFER_SIZE=1024`` on torch 2.13, where it only makes the default of 2,000 smaller.

Fix: set both names of the buffer size where the recorder is off; set neither where it is on.

Certain when: the version of torch is known.

Possible when: it is not; then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.check.environment.versions import Versions
from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.variables.variable_families import quote
from unhang.findings import Cause, Certainty, Evidence, Finding, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge import numbers
from unhang.knowledge.job.variable_support import nccl2_effect
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.sentences import Text, say

CHECK = "environment"
NAMES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
DEFAULT_ENTRIES = 2000
ON_BY_DEFAULT, KNOWS_BOTH_NAMES = (2, 11), (2, 8)
_BLOCKING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
_TRUE = ("y", "yes", "1", "t", "true")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the recorder's size, and whether anything would write it down."""
    settings, versions = here.found(JobEnvironment), here.found(Versions)
    if settings is None or versions is None or versions.at_least("torch", (2, 2)) is None:
        return
    set_to = next((settings.in_force[name] for name in NAMES if name in settings.in_force), None)
    blocking = next((name for name in _BLOCKING if (settings.value(name) or "").lower() in _TRUE), None)
    entries = _entries(settings, versions)
    quoted = () if set_to is None else (quote(set_to),)
    torch = versions.of["torch"]
    if blocking is not None and entries:
        name = set_to.name if set_to is not None else NAMES[1]
        summary = say("{name} is useless beside {other}: no watchdog, no dump", name=name, other=blocking)
        because = (*_what_it_does(versions, set_to), *_nccl2(name, settings, versions))
        yield _note(name, summary, quoted, _without(blocking, set_to, versions), because)
    elif not entries:
        yield _off(versions, quoted)
    elif set_to is not None and versions.at_least("torch", ON_BY_DEFAULT) and entries < DEFAULT_ENTRIES:
        summary = say(
            "{name}={value} only makes the flight recorder smaller: torch {torch} keeps 2000 entries by itself",
            name=set_to.name,
            value=set_to.value,
            torch=torch,
        )
        because = _nccl2(set_to.name, settings, versions)
        yield _note(set_to.name, summary, quoted, _taken_out(set_to.name), because)
    else:
        yield PassedCheck(
            CHECK, say("the flight recorder is on in torch {torch}: {entries} entries", torch=torch, entries=entries)
        )


def _entries(settings: JobEnvironment, versions: Versions) -> int:
    default = DEFAULT_ENTRIES if versions.at_least("torch", ON_BY_DEFAULT) else 0
    names = NAMES if versions.at_least("torch", KNOWS_BOTH_NAMES) else NAMES[1:]
    value = next((settings.value(name) for name in names if settings.value(name)), None)
    entries = numbers.integer(value or "")
    return entries if entries is not None and entries >= 0 else default


def _what_it_does(versions: Versions, set_to: VariableSetting | None) -> tuple[Text, ...]:
    if set_to is None:
        return ()
    torch = versions.of["torch"]
    if not versions.at_least("torch", ON_BY_DEFAULT):
        return (say("without blocking wait torch {torch} needs it: the recorder is off by default", torch=torch),)
    return (say("torch {torch} keeps 2000 entries by itself; a smaller number only shortens them", torch=torch),)


def _nccl2(name: str, settings: JobEnvironment, versions: Versions) -> tuple[Text, ...]:
    effect = nccl2_effect(name) if versions.nccl2(settings) else ""
    return (say("torch's rewritten backend nccl2 is in force: {effect}", effect=effect),) if effect else ()


def _note(
    name: str, summary: Text, evidence: tuple[Evidence, ...], remedy: Remedy, because: tuple[Text, ...]
) -> Finding:
    return risk(
        CHECK,
        name,
        Cause.UNKNOWN,
        summary,
        certainty=Certainty.CERTAIN,
        severity=Severity.NOTE,
        because=because,
        evidence=evidence,
        remedies=(remedy,),
    )


def _taken_out(name: str) -> Remedy:
    return Remedy(
        say("Take {name} out", name=name),
        RemedyKind.ENVIRONMENT,
        Text(""),
        say("none"),
        say("unhang check --only environment says how many entries are kept"),
        unset=(name,),
    )


def _without(blocking: str, set_to: VariableSetting | None, versions: Versions) -> Remedy:
    """Take out what is in the way, and leave the recorder on: a size is needed where none is the default."""
    if versions.at_least("torch", ON_BY_DEFAULT):
        needless = () if set_to is None else (set_to.name,)
        return replace(_taken_out(blocking), unset=(blocking, *needless))
    return replace(_taken_out(blocking), unset=(blocking,), set=_wanted(versions))


def _wanted(versions: Versions) -> dict[str, str]:
    """What turns the recorder on in a version where it is off by default."""
    both = NAMES if versions.at_least("torch", KNOWS_BOTH_NAMES) else NAMES[1:]
    wanted = {name: str(DEFAULT_ENTRIES) for name in both}
    return wanted if versions.at_least("torch", (2, 7)) else {**wanted, "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


def _off(versions: Versions, evidence: tuple[Evidence, ...]) -> Finding:
    return risk(
        CHECK,
        NAMES[1],
        Cause.UNKNOWN,
        say(
            "The flight recorder is off in torch {torch}: after a stall nothing tells who called what",
            torch=versions.of["torch"],
        ),
        certainty=Certainty.CERTAIN,
        severity=Severity.NOTE,
        evidence=evidence,
        remedies=(
            Remedy(
                say("Turn the flight recorder on"),
                RemedyKind.ENVIRONMENT,
                say("or start the job with unhang run, which does it"),
                say("a few MB of host memory a rank; no measurable time"),
                say("unhang check --only environment says how many entries are kept"),
                set=_wanted(versions),
            ),
        ),
    )
