"""Every sentence of the knowledge and of the rules' pages that an explanation shows: what a catalogue must hold."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.findings import Cause
from unhang.knowledge.costly import costly_rows
from unhang.knowledge.environment import variables
from unhang.knowledge.file_systems import file_systems
from unhang.knowledge.messages import load_messages
from unhang.knowledge.standing import nccl2_effects
from unhang.knowledge.terms import advices, terms
from unhang.knowledge.workarounds import workarounds
from unhang.knowledge.xid import xid_row
from unhang.report.explain.cause_pages import cause_parts
from unhang.report.explain.code_pages import DOCUMENTED_XIDS


def known_sentences() -> Iterator[str]:
    """The sentences, page by page; some stand twice.

    Of variables: what the documented ones do, cost and get in the way of. Values, the others, and what is
    known of single versions stay English.
    """
    for cause in Cause:
        title, parts = cause_parts(cause)
        yield from (title, *parts.values())
    for term in terms():
        yield from (term.meaning, *term.do, *filter(None, (term.harmless,)))
    yield from (advice.do for advice in advices())
    yield from (row.meaning for row in map(xid_row, DOCUMENTED_XIDS) if row is not None)
    yield from (row.meaning for row in load_messages())
    for variable in variables():
        if variable.documented and not variable.guess:
            yield from (variable.effect, *filter(None, (variable.cost,)), *(item.why for item in variable.conflicts))
    for row in costly_rows():
        yield from (row.effect, row.unless)
    for workaround in workarounds():
        yield from (workaround.switches_off, workaround.reason, workaround.repair)
    yield from nccl2_effects()
    yield from (row.effect for row in file_systems())
