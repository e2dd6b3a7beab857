"""Signs on the machine: what is the same for all blames nobody, and what was long before says nothing of now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.case_writer import CASES, START_NS
from tests.cases.make_machine import _all_wait, _start_of
from tests.machine_samples import UUID, card, rank, series
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.machine.machine_state import MachineSign, machine_signs
from unhang.facts.machine.nccl_reports import chosen_transports
from unhang.facts.model import Facts

SINCE_S = START_NS / 1e9 + 41
TAKEN_S = START_NS / 1e9 + 90


def facts_of(files: Mapping[str, bytes], folder: Path) -> Facts:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return build_facts(read_evidence([str(folder)]))


def signs(row: Mapping[str, Any], folder: Path, *, last_s: float = TAKEN_S) -> tuple[MachineSign, ...]:
    """In a job in which all wait in one collective."""
    job = _all_wait({})
    files = {**job.files, "machine/series.jsonl": series([row] * 3, last_s=last_s)}
    return machine_signs(facts_of(files, folder))


BOTH = [rank(0), rank(1)]


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        ({"space": {"/c": {"free": 1 << 20, "size": 1 << 40}}}, ["disk-full"]),
        ({"space": {"/c": {"free": 5 << 30, "size": 1 << 40, "files_free": 0}}}, ["disk-full"]),
        ({"space": {"/c": {"free": 5 << 30, "size": 1 << 40, "files_free": 9}}}, []),
        ({"space": {"/dev/shm": {"free": 30 << 20, "size": 64 << 20}}}, []),
        ({"disk": {"sda": {"paths": ["/c"], "busy": 0.97, "await_s": 0.2}}}, ["disk-busy"]),
        ({"disk": {"sda": {"paths": ["/c"], "busy": 0.5}}}, []),
        ({"pressure": {"io": {"some": 0.3}}}, []),
        ({"ranks": [rank(0, blocked=1), rank(1)]}, ["rank-blocked"]),
        ({"tcp": {"sent": 40_000, "sent_again": 400}}, []),
        ({"tcp": {"sent": 4, "sent_again": 2}}, []),
        ({"tcp": {"sent": 40, "sent_again": 20}}, ["sent-again"]),
        ({"ib": {"mlx5_0/1": {"link_changes": 1, "state": "ACTIVE"}}}, ["link-lost"]),
        ({"net": {"eth0": {"errors": 3}}}, []),
        ({"cards": [card(0, util=100), card(1, util=40)], "ranks": BOTH}, ["spins"]),
        ({"cards": [card(0), card(1, lanes=4)], "ranks": BOTH}, ["spins", "spins"]),
        ({"cards": [card(0), card(1)], "ranks": [rank(0, cards=[]), rank(1, cards=[])]}, []),
        ({"cards": [card(0, util=100), card(1)], "ranks": [rank(0, cards=[UUID.format(0), UUID.format(1)])]}, []),
    ],
)
def test_signs(row: Mapping[str, Any], kinds: list[str], tmp_path: Path) -> None:
    assert [sign.kind for sign in signs(row, tmp_path)] == kinds


@pytest.mark.parametrize(("blocked", "kinds"), [([0, 1, 2], ["rank-blocked"]), ([0, 1], []), ([0, 0, 2], [])])
def test_a_rank_that_stands_in_the_kernel_in_most_looks_is_told(
    blocked: list[int], kinds: list[str], tmp_path: Path
) -> None:
    job = _all_wait({})
    rows = [{"ranks": [rank(0, blocked=count)]} for count in blocked]
    job.files["machine/series.jsonl"] = series(rows, last_s=TAKEN_S)

    assert [sign.kind for sign in machine_signs(facts_of(job.files, tmp_path))] == kinds


def test_what_the_machine_did_before_the_wait_is_not_its_reason(tmp_path: Path) -> None:
    long_before = [{"tcp": {"sent": 40, "sent_again": 20}}] * 3
    now = [{"tcp": {"sent": 900, "sent_again": 0}}] * 3
    job = _all_wait({})
    job.files["machine/series.jsonl"] = series([*long_before, *[{}] * 90, *now], last_s=TAKEN_S)

    assert machine_signs(facts_of({**job.files, **_manifest(SINCE_S)}, tmp_path)) == ()


def _manifest(since_s: float, taken_s: float = TAKEN_S) -> dict[str, bytes]:
    times = f'"stalled_since_s": {since_s}, "taken_s": {taken_s}'
    text = f'{{"schema": "unhang.bundle/1", "world_size": 2, {times}, "processes": []}}'
    return {"bundle.json": text.encode()}


@pytest.mark.parametrize("ahead_s", [0.0, 300.0, -300.0])
def test_a_clock_that_goes_otherwise_and_what_came_after_the_look_change_nothing(
    ahead_s: float, tmp_path: Path
) -> None:
    now = [{"tcp": {"sent": 40, "sent_again": 20}}] * 3
    job = _all_wait({})
    job.files["machine/series.jsonl"] = series([*[{}] * 5, *now], last_s=TAKEN_S + ahead_s)
    manifest = _manifest(SINCE_S, TAKEN_S)

    assert [sign.kind for sign in machine_signs(facts_of({**job.files, **manifest}, tmp_path / "a"))] == ["sent-again"]
    if not ahead_s:
        job.files["machine/series.jsonl"] = series([*[{}] * 5, *now, *now], last_s=TAKEN_S + 30)
        later = machine_signs(facts_of({**job.files, **manifest}, tmp_path / "b"))
        assert [sign.values["count"] for sign in later] == [60]


def test_the_card_is_named_so_that_history_knows_it_again() -> None:
    case = CASES / "slow-rank" / "hit_two_looks_and_hot_card" / "input"

    first = diagnose(build_facts(read_evidence([str(case)]))).findings[0]

    assert any(UUID.format(0) in item.text for item in first.evidence)


@pytest.mark.parametrize(
    ("way", "gone"), [("SHM/direct/direct", {"network-fault", "p2p-broken"}), ("P2P/IPC", {"network-fault"})]
)
def test_a_way_that_nccl_does_not_use_is_no_suspect(way: str, gone: set[str], tmp_path: Path) -> None:
    job = _all_wait({})
    for number in (0, 1):
        job.files[f"nccl/rank_{number}.node-a.{4000 + number}.log"] = _start_of(number, way)
    job.files |= _manifest_of_one_node()

    facts = facts_of(job.files, tmp_path)
    chosen = chosen_transports(facts)

    assert chosen is not None
    assert (chosen.ways, chosen.all_told) == ((way.split("/", maxsplit=1)[0],), True)
    suspects = {"network-fault", "gpu-hardware", "p2p-broken"}
    assert suspects - {f.cause.value for f in diagnose(facts).findings} == gone


def test_while_one_rank_said_nothing_every_way_stays_a_suspect(tmp_path: Path) -> None:
    job = _all_wait({})
    job.files["nccl/rank_0.node-a.4000.log"] = _start_of(0, "SHM/direct/direct")
    job.files |= _manifest_of_one_node()

    causes = {f.cause.value for f in diagnose(facts_of(job.files, tmp_path)).findings}

    assert {"network-fault", "gpu-hardware", "p2p-broken"} <= causes


def _manifest_of_one_node() -> dict[str, bytes]:
    ranks = ", ".join(f'{{"rank": {r}, "pid": {4000 + r}, "host": "node-a"}}' for r in (0, 1))
    return {"bundle.json": f'{{"schema": "unhang.bundle/1", "world_size": 2, "processes": [{ranks}]}}'.encode()}
