"""On which card a rank sits: as CUDA reads its environment, and unknown wherever that does not tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.machine_samples import UUID, card
from tests.watch.machine.test_machine_cards import NEW, machine
from unhang.check.devices.devices import DeviceSelection
from unhang.watch.machine.cards import card_of_rank, device_choice
from unhang.watch.machine.sampler import MachineSampler
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.record import RecordWriter
from unhang.wire.record_views import RankIdentity

SLICE = "MIG-0c1a2b3d-1111-2222-3333-444455556666"
LISTED = f"""GPU 0: NVIDIA A100-SXM4-80GB (UUID: {UUID.format(0)})
GPU 1: NVIDIA A100-SXM4-80GB (UUID: {UUID.format(1)})
  MIG 3g.40gb     Device  0: (UUID: {SLICE})
  MIG 3g.40gb     Device  1: (UUID: MIG-ffff2b3d-1111-2222-3333-444455556666)
"""
EIGHT = [card(index) for index in range(8)]
MIXED = [card(0), card(1, name="NVIDIA A40")]


def on(words: str | None, local_rank: int, cards: list[dict[str, Any]] = EIGHT, order: str = "FASTEST_FIRST") -> Any:
    """The index of the card, for a process that was started so."""
    chosen = DeviceSelection(None if words is None else tuple(word.strip() for word in words.split(",")), order)
    uuid = card_of_rank(cards, chosen, local_rank, {SLICE: UUID.format(1)}.get)
    return next((one["index"] for one in cards if one["uuid"] == uuid), uuid)


@pytest.mark.parametrize(
    ("words", "local_rank", "index"),
    [
        ("4,5,6,7", 0, 4),
        ("4,5,6,7", 3, 7),
        ("6, 3 ,2", 1, 3),
        ("4,5,6,7", 4, None),
        ("4,5,6,7", -1, None),
        (None, 5, 5),
        (None, 8, None),
        ("3", 3, 3),
        ("3", -1, 3),
        ("6,7,8,9", 1, 7),
        ("6,7,8,9", 2, None),
        ("0,-1,1", 0, 0),
        ("2,3,-1,1", 2, None),
        ("-1", 0, None),
        ("", 0, None),
        ("none", 0, None),
        ("2,2", 0, None),
        ("2,,3", 0, 2),
        (f"{UUID.format(5)},{UUID.format(2)}", 1, 2),
        ("GPU-00000003,GPU-00000001", 1, 1),
        ("GPU-0000000,GPU-00000001", 0, None),
        ("GPU-deadbeef", 0, None),
        (SLICE, 3, 1),
        (f"{SLICE},MIG-ffff2b3d-1111-2222-3333-444455556666", 0, 1),
        (f"{SLICE},MIG-ffff2b3d-1111-2222-3333-444455556666", 1, None),
        ("MIG-00000000-1111-2222-3333-444455556666", 0, None),
        (f"MIG-{UUID.format(6)}/7/0", 0, 6),
        (f"3,{SLICE}", 0, None),
    ],
)
def test_the_card_of_a_rank_is_what_its_environment_lets_it_see(
    words: str | None, local_rank: int, index: int | None
) -> None:
    assert on(words, local_rank) == index


@pytest.mark.parametrize(
    ("words", "order", "index"),
    [
        ("0,1", "FASTEST_FIRST", None),
        (None, "FASTEST_FIRST", None),
        ("0,1", "PCI_BUS_ID", 1),
        (None, "PCI_BUS_ID", 1),
        (f"{UUID.format(1)},{UUID.format(0)}", "FASTEST_FIRST", 0),
    ],
)
def test_numbers_of_unlike_cards_tell_nothing_unless_counted_by_the_bus(
    words: str | None, order: str, index: int | None
) -> None:
    assert on(words, 1, MIXED, order) == index


def test_an_environment_that_cannot_be_read_tells_nothing() -> None:
    assert device_choice((1 << 22) + 1) is None  # no process has such a number
    assert card_of_rank(EIGHT, None, 0, {}.get) is None


@pytest.mark.parametrize(
    ("backend", "visible", "uuid"),
    [
        ("cpu:gloo,cuda:nccl", UUID.format(1), UUID.format(1)),
        ("nccl", SLICE, UUID.format(1)),
        ("nccl", "1,0", UUID.format(0)),
        ("gloo", "1", None),
    ],
    ids=["a uuid", "a slice", "a number", "no cards in use"],
)
def test_where_the_driver_names_no_process_a_sample_tells_by_the_ranks_environment(
    backend: str, visible: str, uuid: str | None, tmp_path: Path
) -> None:
    table = "".join(
        f"{at}, {UUID.format(at)}, 00000000:{at:02x}:00.0, NVIDIA A100-SXM4-80GB, 100, 61034, 81559, 1980, 1980, 2619, "
        "64, 512.30, 700.00, 0, 16, 0x0000000000000004\n"
        for at in range(2)
    )
    stored = machine(tmp_path, {NEW: {"text": table}, "nvidia-smi -L": {"text": LISTED}})
    (tmp_path / "records").mkdir()
    (tmp_path / "run").mkdir()
    environment = {"CUDA_VISIBLE_DEVICES": visible, "API_TOKEN": "secret"}
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        me = RankIdentity(pid=process.pid, rank=9, local_rank=1, world_size=16, armed_ns=1)
        record = RecordWriter.create(tmp_path / "records" / f"9.{process.pid}.rec", me)
        record.now.backend = backend
        record.publish()
        row = MachineSampler(tmp_path / "run", tmp_path / "records", RunPlan(cwd=str(tmp_path)), stored).sample()
        process.communicate()

    assert row["ranks"][0].get("cards") == ([uuid] if uuid is not None else None)
    assert "secret" not in (tmp_path / "run" / "machine" / "series.jsonl").read_text()
