"""A rank of another node as a sample: what its node's last columns tell of it."""

from __future__ import annotations

from unhang.watch.job.wait_detection import RankActivity, RankSample
from unhang.watch.nodes.node_roster import RemoteNode
from unhang.watch.nodes.rank_digest import ACTIVITIES
from unhang.wire.record_views import PHASES, CodeLine, MarkedPhase, RankIdentity, RecordView

_LETTERS = {RankActivity.STOPPED: "T", RankActivity.DEAD: ""}


def remote_sample(node: RemoteNode, rank: int) -> RankSample | None:
    """None where the node never reported it."""
    columns, ahead_ns = node.columns, node.ahead_ns or 0
    if columns is None or rank not in columns.rank:
        return None
    at = columns.rank.index(rank)
    view = RecordView(
        RankIdentity(rank=rank),
        beat_ns=_by_our_clock(columns.beat_ns[at], ahead_ns),
        since_ns=_by_our_clock(columns.still_ns[at], ahead_ns),
        phase=PHASES[columns.phase[at]],
        steps=max(0, columns.step[at]),
        step_source="guards" if columns.step[at] >= 0 else "none",
        user=_place(columns.places[columns.place[at]]) if columns.place[at] >= 0 else CodeLine(),
    )
    label = columns.labels[columns.label[at]] if columns.label[at] >= 0 else ""
    for marked, since_ns, at_most_ns in columns.marks:
        if marked == rank and label:
            view.mark = MarkedPhase(label, view.phase, _by_our_clock(since_ns, ahead_ns), at_most_ns)
    return RankSample(view, _LETTERS.get(ACTIVITIES[columns.doing[at]], "S"))


def _by_our_clock(at_ns: int, ahead_ns: int) -> int:
    return at_ns - ahead_ns if at_ns > 0 else -1


def _place(text: str) -> CodeLine:
    file, _, line = text.rpartition(":")
    return CodeLine(file, int(line) if line.isdecimal() else 0)
