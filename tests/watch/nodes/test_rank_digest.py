"""What one node tells another of its ranks: small, whatever it holds, and in the time of who reads it."""

from __future__ import annotations

import time

import msgspec
from msgspec.msgpack import decode, encode

from tests.watch.nodes.seen_ranks import look, ranks_of, roster_of
from unhang.watch.job.wait_detection import WaitDetector
from unhang.watch.nodes.live_columns import with_remote_ranks
from unhang.watch.nodes.node_roster import NodeRoster
from unhang.watch.nodes.rank_digest import (
    DigestColumns,
    NodeDigest,
    NodeHello,
    NodeRanks,
    clock_ahead_s,
    decoded,
    digest_of,
)
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState
from unhang.wire.documents.live_state import LiveRun, LiveState, LiveTotals
from unhang.wire.documents.live_state import RankColumns as LiveRanks
from unhang.wire.record_views import MarkedPhase


def test_a_healthy_node_says_it_in_some_tens_of_bytes() -> None:
    digest = digest_of(time.monotonic_ns(), ranks_of(0), deaths=0, over=0, whole=False)

    assert len(encode(digest)) < 40
    assert digest.waits_ms == -1
    assert decoded(encode(digest), NodeDigest) == digest


def test_a_message_of_another_layout_is_not_read() -> None:
    digest = digest_of(time.monotonic_ns(), ranks_of(0), deaths=0, over=0, whole=False)
    hello = NodeHello("h0", "h0", "", [0, 1], 7, 8)
    layout, *fields = decode(encode(digest))
    before = encode([*fields])
    other = encode([layout + 1, *fields])

    assert (decoded(before, NodeDigest), decoded(other, NodeDigest)) == (None, None)
    assert decoded(encode(hello), NodeHello) == hello
    assert decoded(encode(decode(encode(hello))[1:]), NodeHello) is None


def test_a_digest_may_hold_anything() -> None:
    whole = digest_of(time.monotonic_ns(), ranks_of(0, waits_s=3.0), deaths=0, over=0, whole=True)
    assert whole.columns is not None
    assert decoded(encode(whole), NodeDigest) == whole

    wrong_columns = {"doing": [99, 0], "rank": [-1, 0], "label": [1], "place": [7, 0], "phase": [50, 1]}
    for name, column in (*wrong_columns.items(), ("groups", [["0", "gloo", 4, [2], [], [41]]])):
        wrong = decode(encode(whole))
        wrong[5][DigestColumns.__struct_fields__.index(name)] = column
        assert decoded(encode(wrong), NodeDigest) is None
    for torn in (b"", b"\xff", encode(whole)[:-3], b"\x91" * 5000):
        assert decoded(torn, NodeDigest) is None


def test_clocks_of_nodes_do_not_matter() -> None:
    """One is hours away in monotonic time and five minutes ahead by its clock: it waits as long as it says."""
    away_ns = 7_000 * 10**9
    now_ns = time.monotonic_ns()
    whole = digest_of(now_ns, ranks_of(2, waits_s=3.0), deaths=0, over=0, whole=True)
    later_ns = time.monotonic_ns()
    assert whole.columns is not None
    columns = msgspec.structs.replace(whole.columns, waits_ns=[ns + away_ns for ns in whole.columns.waits_ns])
    there = NodeDigest(now_ns + away_ns, 0, 3000, columns=columns)
    hello = NodeHello("h1", "h1", "", [2, 3], now_ns + away_ns, 1_000 * 10**9 + 300 * 10**9)
    ours = NodeHello("h0", "h0", "", [0, 1], now_ns, 1_000 * 10**9)
    roster = NodeRoster()

    roster.take(
        TransportState(
            now_ns,
            True,
            0,
            seat=0,
            hellos=[ReceivedValue(1, 1, 1, encode(hello))],
            digests=[ReceivedValue(1, now_ns, now_ns, encode(there))],
        )
    )

    node = roster.nodes[1]
    assert node.ahead_ns == away_ns
    assert abs(clock_ahead_s(ours, hello, node.ahead_ns) - 300.0) < 0.01
    since = [state.waits_ns for state in roster.states(now_ns).values()]
    assert since == []  # it was not heard twice: it may be left from an earlier run
    roster.take(
        TransportState(
            now_ns,
            True,
            0,
            seat=0,
            digests=[ReceivedValue(1, 1, now_ns + 5, encode(msgspec.structs.replace(there, waits_ms=3001)))],
        )
    )
    since = [state.waits_ns for state in roster.states(now_ns).values()]
    waited = 3 * 10**9
    assert all(ns is not None and now_ns - 10**8 <= ns + waited <= later_ns + 10**8 for ns in since)
    assert len(since) == 2


def test_marked_work_on_another_node_is_known() -> None:
    now_ns = time.monotonic_ns()
    mark = MarkedPhase("evaluation", "eval", now_ns - 10**9, 600 * 10**9)
    looks = {2: look(2, busy=True, mark=mark)}
    states = WaitDetector().rank_states(now_ns, looks)
    digest = digest_of(now_ns, NodeRanks(looks, states), deaths=0, over=0, whole=True)
    roster = NodeRoster()
    roster.take(TransportState(now_ns, True, 0, seat=0, digests=[ReceivedValue(1, 1, now_ns, encode(digest))]))

    from unhang.watch.nodes.node_roster import remote_sample

    seen = remote_sample(roster.nodes[1], 2)
    assert seen is not None
    assert seen.view.mark is not None
    assert (seen.view.mark.label, seen.view.mark.at_most_ns) == ("evaluation", 600 * 10**9)


def test_a_death_on_another_node_is_known_by_our_clock() -> None:
    digest = digest_of(time.monotonic_ns(), ranks_of(2), deaths=0, over=0, whole=False)

    assert roster_of(digest).died_ns() == 0
    before_ns = time.monotonic_ns()
    died_ns = roster_of(digest, deaths=1, quiet_s=4.0).died_ns()
    assert before_ns <= died_ns + 4 * 10**9 <= time.monotonic_ns()


def test_the_live_state_of_the_leader_holds_every_rank() -> None:
    now_ns = time.monotonic_ns()
    digest = digest_of(now_ns, ranks_of(2, waits_s=3.0), deaths=0, over=0, whole=True)
    roster = NodeRoster()
    hello = NodeHello("h1", "h1", "", [2, 3], now_ns, 0)
    for at_ns in (now_ns, now_ns + 1):
        value = encode(msgspec.structs.replace(digest, at_ns=at_ns))
        roster.take(
            TransportState(
                now_ns,
                True,
                0,
                seat=0,
                hellos=[ReceivedValue(1, 1, 1, encode(hello))],
                digests=[ReceivedValue(1, 1, at_ns, value)],
            )
        )
    run = LiveRun(["x"], "/x", 0.0, 4, ["h0"])
    own = LiveRanks([0], [0], [0], [0], [-1], [0], [1], [0.1], [0.0], [-1.0], [0.0])
    state = LiveState(
        "unhang.live/1", 0.0, False, run, own, ["train.py:1"], [], [], None, None, LiveTotals(0, None, None, {}, [])
    )

    whole = with_remote_ranks(state, roster)

    assert whole.ranks.rank == [0, 2, 3]
    assert [whole.run.nodes[node] for node in whole.ranks.node] == ["h0", "h1", "h1"]
    assert [whole.places[place] for place in whole.ranks.place] == ["train.py:1", "train.py:9", "train.py:9"]
    assert all(waits > 2.5 for waits in whole.ranks.waits_s[1:])
    assert whole.groups[0].rank == [2, 3]
