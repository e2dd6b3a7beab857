"""Every sentence of the knowledge and of the detectors' pages that an explanation shows: what a catalogue must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.findings import Cause
from unhang.knowledge.hardware.file_systems import file_system_rows
from unhang.knowledge.hardware.xid import xid_row
from unhang.knowledge.job.costly_settings import costly_settings
from unhang.knowledge.job.environment_variables import EnvironmentVariable, variables
from unhang.knowledge.job.variable_support import nccl2_effects
from unhang.knowledge.job.workarounds import workarounds
from unhang.knowledge.messages import load_messages
from unhang.knowledge.terms import advices, terms
from unhang.report.explain.cause_pages import cause_parts
from unhang.report.explain.code_pages import DOCUMENTED_XIDS

_WORDS = re.compile(r"\b[a-z]{2,} [a-z]{2,}\b|\b(?:unset|from|since|excludes|prefix|comma)\b")


def values_of(variable: EnvironmentVariable) -> tuple[str, ...]:
    """What a page says of the values of a variable: which it takes, the default, since when; empty ones left out."""
    defaults = "; ".join(f"{item.since}+: {item.value}" for item in variable.defaults)
    return tuple(filter(None, (variable.values, variable.default, variable.since, defaults)))


def known_sentences() -> Iterator[str]:
    """The sentences, page by page; some stand twice.

    Of variables: what the documented ones do, cost and get in the way of, and of all of them the values, defaults and
    versions that are more than a number or a name.
    """
    for cause in Cause:
        title, parts = cause_parts(cause)
        yield from (title, *parts.values())
    for term in terms():
        yield from (term.meaning, *term.do, *(text for _, text in term.judged), *filter(None, (term.harmless,)))
    yield from (advice.do for advice in advices())
    yield from (row.meaning for row in map(xid_row, DOCUMENTED_XIDS) if row is not None)
    yield from (row.meaning for row in load_messages())
    for variable in variables():
        if variable.documented and not variable.guess:
            yield from (variable.effect, *filter(None, (variable.cost,)), *(item.why for item in variable.conflicts))
        yield from filter(_WORDS.search, values_of(variable))
    for row in costly_settings():
        yield from (row.effect, row.unless)
    for workaround in workarounds():
        yield from (workaround.switches_off, workaround.reason, workaround.repair)
    yield from nccl2_effects()
    yield from (row.effect for row in file_system_rows())
