"""Where nothing tells whether a collective decides how often a loop runs; where one does, see ``programs/agreed``."""

from __future__ import annotations

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.rank_dependence.same_on_all_ranks import agreeing_call


def test_without_source_or_loop_nothing_is_known() -> None:
    assert agreeing_call(None, 3) is None
    assert agreeing_call(SourceFile(Source("t.py"), "t.py", "x = (\n"), 1) is None
    assert agreeing_call(SourceFile(Source("t.py"), "t.py", "x = 1\n"), 1) is None
