"""A variable that nothing reads.

What happens: a name was misspelt, never existed, was removed, or is newer than what is installed. It is ignored
without a word.

Why it hangs: it does not; but somebody believes that the limit is longer, the fabric configured or the recorder on.

Example: ``NCCL_TIMEOUT=3600``: no version of NCCL or torch reads it.

Fix: take it out, or set what it was meant to be.

A program may read such a name itself (``int(os.environ["NCCL_TIMEOUT"])``): taken out, it would break.

Certain when: the name is in no version that is installed.

Possible when: the version that is installed is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.variables.variable_families import CHECK, Judged, judged, quote, stall_of, unknown_names
from unhang.findings import Certainty, Finding, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.environment_variables import similar_names, variable
from unhang.knowledge.job.variable_support import VariableSupport
from unhang.program.program_source import ProgramSource
from unhang.program.settings.environment_reads import first_read
from unhang.sentences import Text, say


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One note for each name that has no effect."""
    program = here.found(ProgramSource)
    for one in judged(here):
        summary = _summary(one)
        read = first_read(program, one.setting.name) if program is not None and summary is not None else None
        if read is not None:
            place = f"{read.path}:{read.line}"
            yield PassedCheck(
                CHECK, say("no library reads {name}, this program does: {place}", name=read.name, place=place)
            )
        elif summary is not None:
            known = one.row.status == "unread" or one.version is not None
            yield _note(
                one.setting.name,
                summary,
                one,
                Certainty.CERTAIN if known else Certainty.POSSIBLE,
                looked=program is not None and not program.partly,
            )
    for setting in unknown_names(here):
        name, similar = setting.name, similar_names(setting.name)
        if similar:
            summary = say("{name} is a name that nothing reads; {similar} is close", name=name, similar=similar[0])
        else:
            summary = say("{name} is a name that nothing we know reads", name=name)
        yield risk(
            CHECK,
            name,
            stall_of(name),
            summary,
            severity=Severity.NOTE,
            evidence=(quote(setting),),
            remedies=(_take_out(name, similar[0] if similar else ""),),
        )


def _summary(one: Judged) -> Text | None:
    name, owner, version = one.setting.name, one.row.owner, one.version or ""
    if one.standing is VariableSupport.NOBODY:
        return say("{name} is read by nobody and sets nothing", name=name)
    if one.standing is VariableSupport.GONE:
        return say("{name} is no longer read by {owner} {version}", name=name, owner=owner, version=version)
    if one.standing is VariableSupport.NOT_YET:
        return say(
            "{name} is not read by {owner} {version}; it came with {since}",
            name=name,
            owner=owner,
            version=version,
            since=one.row.since,
        )
    return None


def _note(name: str, summary: Text, one: Judged, certainty: Certainty, *, looked: bool) -> Finding:
    return risk(
        CHECK,
        name,
        stall_of(name),
        summary,
        certainty=certainty,
        severity=Severity.NOTE,
        because=() if looked else (say("whether the program reads it itself was not looked at"),),
        evidence=(one.evidence,),
        remedies=(_take_out(name, one.row.replacement),),
    )


def _take_out(name: str, replacement: str) -> Remedy:
    if replacement and variable(replacement) is not None:
        title = say("Take {name} out; if it is wanted, set {other}", name=name, other=replacement)
    elif replacement:
        title = say("Take {name} out; what it was meant for is {other}", name=name, other=replacement)
    else:
        title = say("Take {name} out", name=name)
    return Remedy(
        title,
        RemedyKind.ENVIRONMENT,
        Text(""),
        say("nothing: it has no effect"),
        say("unhang check --only environment no longer names it"),
        unset=(name,),
    )
