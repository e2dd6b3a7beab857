"""The lines that come of there being other nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from unhang.findings import Certainty
from unhang.report.labels import CERTAINTY
from unhang.report.localizer import Localizer
from unhang.report.text_serialization import text_from_json
from unhang.sentences import Text, say
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.leader_election import Role
from unhang.watch.nodes.leader_messages import LeaderVerdict
from unhang.watch.nodes.silent_node_announcements import SilentNodeAnnouncements
from unhang.watch.reporting.verdict_summary import VerdictSummary

MAX_NAME = 100


class NodeAnnouncements:
    """Each is said once, and again only when the other was said between."""

    def __init__(self) -> None:
        self._alone_said = False
        self._silent = SilentNodeAnnouncements()
        self._led = -1

    def due(self, cluster: ClusterView) -> Iterator[Text]:
        """What is to be said now."""
        yield from self._meeting(cluster)
        yield from self._leaders(cluster)
        if cluster.role is Role.LEADS:
            yield from self._silent.due(cluster)

    def _meeting(self, cluster: ClusterView) -> Iterator[Text]:
        if cluster.role is not Role.ALONE:
            if self._alone_said and cluster.role is not Role.UNDECIDED:
                self._alone_said = False
                yield say("the watchers of the nodes have met")
            return
        if self._alone_said:
            return
        self._alone_said = True
        because = cluster.transport.because if cluster.transport is not None else ""
        if because:
            yield say("other nodes are not reached, each node is watched alone: {reason}", reason=because)
        else:
            yield say("other nodes are not reached, each node is watched alone")

    def _leaders(self, cluster: ClusterView) -> Iterator[Text]:
        """Who takes over from whom; that the first node leads goes without saying."""
        if cluster.leader < 0 or cluster.leader == self._led:
            return
        before, self._led = self._led, cluster.leader
        if cluster.role is Role.LEADS and (before >= 0 or cluster.leader > 0) and not cluster.leader_left:
            yield say("the first node's watcher is silent; verdicts come from here")


def leader_verdict_line(said: LeaderVerdict, summary: VerdictSummary, lang: str) -> Text:
    """A leader's verdict, on another node's terminal and in its user's language."""
    localizer = Localizer(lang)
    return say(
        "verdict of node {node}: {cause} ({certainty}): {sentence}  evidence there: {folder}",
        node=localizer.line(said.node, MAX_NAME),
        cause=localizer.line(summary.cause, MAX_NAME),
        certainty=_certainty(summary),
        sentence=text_from_json(summary.sentence_parts, summary.sentence, localizer),
        folder=localizer.line(said.folder),
    )


def _certainty(summary: VerdictSummary) -> Text | str:
    with suppress(ValueError):
        return CERTAINTY[Certainty(summary.certainty)]
    return ""
