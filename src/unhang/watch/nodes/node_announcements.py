"""The lines that come of there being other nodes; of many that fall silent one line tells."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from unhang.report.first_lines import known_cause
from unhang.report.localizer import Localizer
from unhang.report.text_serialization import text_from_json
from unhang.sentences import Text, say
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.leadership import LeaderVerdict, Role
from unhang.watch.nodes.node_roster import RemoteNode
from unhang.watch.nodes.transport.mailbox import seconds_since

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
                yield say("the watchers of the nodes are connected")
            return
        if self._alone_said:
            return
        self._alone_said = True
        because = cluster.transport.because if cluster.transport is not None else ""
        if because:
            yield say("cannot reach the other nodes, so each node is watched alone: {reason}", reason=because)
        else:
            yield say("cannot reach the other nodes, so each node is watched alone")

    def _leaders(self, cluster: ClusterView) -> Iterator[Text]:
        """Who takes over from whom; that the first node leads goes without saying."""
        if cluster.leader < 0 or cluster.leader == self._led:
            return
        before, self._led = self._led, cluster.leader
        if cluster.role is Role.LEADS and (before >= 0 or cluster.leader > 0) and not cluster.leader_left:
            yield say("no heartbeat from the first node's watcher; verdicts come from here")


def leader_verdict_line(said: LeaderVerdict, lang: str) -> Text:
    """A leader's verdict, on another node's terminal and in its user's language."""
    localizer, summary = Localizer(lang), said.summary
    about = " · ".join(known_cause(summary.cause, summary.certainty, localizer))
    sentence = text_from_json(summary.sentence_parts, summary.sentence, localizer)
    return say(
        "verdict of node {node}: {said}  evidence there: {folder}",
        node=localizer.line(said.node, MAX_NAME),
        said=localizer.colon.join(filter(None, (about, sentence))),
        folder=localizer.line(said.folder),
    )


FEW = 3
"""So many nodes get a line each; of more, so many are named."""
BETWEEN_S = 10.0
"""After as many lines the next ones are kept together for so long: of a thousand nodes some are always late."""
ANSWER_S = 9.0
"""No longer is waited for whether the machine of a silent node answers."""


class SilentNodeAnnouncements:
    """A node's silence is said once, and again after it was heard between."""

    def __init__(self) -> None:
        self._said: set[int] = set()
        self._lines = 0
        self._next_at = 0.0

    def due(self, cluster: ClusterView) -> Iterator[Text]:
        """What is to be said now."""
        if time.monotonic() < self._next_at:
            return
        silent = cluster.silent()
        before = self._lines
        new = [node for node in silent if node.number not in self._said]
        for answers in (True, False, None):
            yield from self._fell_silent([n for n in new if _is_known(cluster, n, answers)], answers)
        yield from self._came_back(cluster, {node.number for node in silent})
        if self._lines > before and self._lines > FEW:
            self._next_at = time.monotonic() + BETWEEN_S

    def _fell_silent(self, nodes: Sequence[RemoteNode], answers: bool | None) -> Iterator[Text]:
        self._said.update(node.number for node in nodes)
        if len(nodes) > FEW:
            self._lines += 1
            yield _many(nodes, answers)
            return
        for node in nodes:
            self._lines += 1
            yield _one(node.name, seconds_since(node.heard_ns), answers)

    def _came_back(self, cluster: ClusterView, silent: set[int]) -> Iterator[Text]:
        back = sorted(self._said - silent)
        self._said.difference_update(back)
        known = [cluster.roster.nodes[number] for number in back if number in cluster.roster.nodes]
        there = [node for node in known if not node.over]
        if len(there) > FEW:
            self._lines += 1
            yield say("heartbeats from {count} nodes are back ({nodes})", count=len(there), nodes=_names(there))
            return
        for node in there:
            self._lines += 1
            yield say("the heartbeat of node {node} is back", node=node.name)


def _is_known(cluster: ClusterView, node: RemoteNode, answers: bool | None) -> bool:
    """Said when it is known whether its machine answers, or that takes too long."""
    found = cluster.answers(node.number)
    return found is answers and (found is not None or seconds_since(node.heard_ns) >= ANSWER_S)


def _names(nodes: Sequence[RemoteNode]) -> str:
    return ", ".join([*(node.name for node in nodes[:FEW]), *(["…"] if len(nodes) > FEW else [])])


def _many(nodes: Sequence[RemoteNode], answers: bool | None) -> Text:
    count, names = len(nodes), _names(nodes)
    if answers:
        return say(
            "no heartbeat from the watchers of {count} nodes ({nodes}); their machines respond",
            count=count,
            nodes=names,
        )
    if answers is False:
        return say("no heartbeat from {count} nodes ({nodes}); their machines do not respond", count=count, nodes=names)
    return say("no heartbeat from {count} nodes ({nodes})", count=count, nodes=names)


def _one(name: str, seconds: float, answers: bool | None) -> Text:
    if answers:
        return say(
            "no heartbeat from the watcher of node {node} for {seconds:.0f} s; its machine responds",
            node=name,
            seconds=seconds,
        )
    if answers is False:
        return say(
            "no heartbeat from node {node} for {seconds:.0f} s; its machine does not respond",
            node=name,
            seconds=seconds,
        )
    return say("no heartbeat from node {node} for {seconds:.0f} s", node=name, seconds=seconds)
