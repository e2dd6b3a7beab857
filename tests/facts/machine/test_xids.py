"""An Xid of the samples is the one of the log, it has the rank that is on its card, and another job's is not ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.machine_samples import UUID, card, rank, series
from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import LogEvent
from unhang.facts.build import build_facts
from unhang.facts.machine.xids import KIND, is_of_another_job, may_be_of_another_job, ranks_on_card
from unhang.facts.model import Facts
from unhang.watch.machine.cards import Xids
from unhang.watch.machine.counters import KernelPaths

LAST_S = 1_760_000_090.0
LINE = "[  812.104] NVRM: Xid (PCI:0000:01:00): 79, pid=4001, name=python, GPU has fallen off the bus.\n"
SEEN = {"bus": "0000:01:00", "code": 79}
CARDS = {"cards": [card(0), card(1), card(2)], "ranks": [rank(0), rank(1)]}


def facts(folder: Path, rows: list[dict[str, Any]], log: str = "") -> Facts:
    (folder / "machine").mkdir(parents=True)
    (folder / "machine" / "series.jsonl").write_bytes(series(rows, last_s=LAST_S))
    (folder / "machine" / "kernel.log").write_text(log or "[  812.001] mlx5_core 0000:c1:00.0: a line\n")
    return build_facts(read_evidence([str(folder)]))


def xids(facts: Facts) -> list[LogEvent]:
    return list(facts.events_of(KIND))


def test_one_event_in_log_and_samples_is_told_once_with_its_rank_and_node(tmp_path: Path) -> None:
    found = facts(tmp_path, [CARDS, {**CARDS, "xids": [SEEN]}], LINE)

    (event,) = xids(found)
    assert (event.rank, event.host, event.values["pid"]) == (1, "node-a", 4001)
    assert event.source.path.endswith("kernel.log")


def test_another_code_or_card_is_another_event(tmp_path: Path) -> None:
    row = {**CARDS, "xids": [{**SEEN, "code": 48}, {**SEEN, "bus": "0000:00:00"}]}

    found = xids(facts(tmp_path, [row], LINE))

    assert sorted((e.values["xid"], e.rank) for e in found) == [(48, 1), (79, 0), (79, 1)]
    assert {e.time_s for e in found} == {None, LAST_S}
    assert UUID.format(1) in next(e.text for e in found if e.values["xid"] == 48)


def test_a_card_that_repeats_itself_for_hours_is_told_from_first_to_last(tmp_path: Path) -> None:
    found = xids(facts(tmp_path, [{**CARDS, "xids": [SEEN] * 16}] * 1_400))

    assert [e.time_s for e in found] == [LAST_S - 13_990, LAST_S]


def test_a_card_that_fell_off_the_bus_is_known_from_earlier_samples(tmp_path: Path) -> None:
    gone = {"cards": [card(0), card(2)], "ranks": [rank(0), rank(1, cards=[])], "xids": [SEEN]}

    assert [e.rank for e in xids(facts(tmp_path, [CARDS, gone]))] == [1]


@pytest.mark.parametrize(
    ("row", "users", "another", "may_be"),
    [
        (CARDS, (1,), False, False),
        ({**CARDS, "ranks": [rank(0), rank(2)]}, (), True, False),
        ({**CARDS, "ranks": [rank(0), rank(2, cards=[])]}, None, False, True),
        ({"cards": [card(0), card(1)], "ranks": [rank(0), rank(1, cards=[])]}, None, False, False),
        ({**CARDS, "ranks": [rank(0), rank(1), rank(2, cards=[UUID.format(1)])]}, (1, 2), False, False),
        ({**CARDS, "ranks": []}, None, False, True),
        ({**CARDS, "cards": [card(0)]}, None, False, False),
    ],
    ids=["ours", "nobody's", "one is not known", "no other cards", "two slices", "no ranks", "a card nobody listed"],
)
def test_whose_card_it_is_has_three_answers(
    row: dict[str, Any], users: tuple[int, ...] | None, another: bool, may_be: bool, tmp_path: Path
) -> None:
    found = facts(tmp_path, [{**row, "xids": [SEEN]}])
    (event,) = xids(found)

    assert ranks_on_card(found, event) == users
    assert (is_of_another_job(found, event), may_be_of_another_job(found, event)) == (another, may_be)


def test_without_samples_a_log_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(LINE)
    found = build_facts(read_evidence([str(tmp_path)]))
    (event,) = xids(found)

    assert (event.rank, ranks_on_card(found, event), is_of_another_job(found, event)) == (None, None, False)


def test_the_kernels_record_becomes_code_bus_and_process(tmp_path: Path) -> None:
    kernel = tmp_path / "kmsg"
    os.mkfifo(kernel)
    holder = os.open(kernel, os.O_RDWR)
    try:
        look = Xids(KernelPaths(kernel=kernel))
        os.write(holder, b"4,812,104,-;NVRM: Xid (PCI:0000:3B:00): 31, pid=4001, name=python, Ch 00000008\n")
        first = look.sample()
        os.write(holder, b"4,813,105,-;NVRM: Xid (PCI:0000:3B:00): 48, pid='<unknown>', name=<unknown>\n")
        second = look.sample()
    finally:
        os.close(holder)

    assert first == {"xids": [{"bus": "0000:3b:00", "code": 31, "pid": 4001}]}
    assert second == {"xids": [{"bus": "0000:3b:00", "code": 48}]}


PROGRAM = "[  812.104] NVRM: Xid (PCI:0000:01:00): 31, pid={}, name=python, Ch 00000008\n"


@pytest.mark.parametrize(
    ("line", "parts", "another", "may_be"),
    [
        (PROGRAM.format(4001), {}, False, False),
        (PROGRAM.format(5000), {}, True, True),
        (PROGRAM.format(5000), {"own_pids": True}, False, False),
        (PROGRAM.format(5000), {"ranks": [rank(0), rank(1, pid=0)]}, False, False),
        (LINE.replace("4001", "5000"), {}, False, True),
    ],
    ids=["a rank's", "a stranger's", "numbers of a container", "a rank's is not known", "the card itself failed"],
)
def test_a_program_that_failed_on_our_card_may_be_a_strangers(
    line: str, parts: dict[str, Any], another: bool, may_be: bool, tmp_path: Path
) -> None:
    (tmp_path / "bundle.json").write_text('{"schema": "unhang.bundle/1", "world_size": 2}')
    found = facts(tmp_path, [{**CARDS, **parts}], line)
    (event,) = xids(found)

    assert (is_of_another_job(found, event), may_be_of_another_job(found, event)) == (another, may_be)
