"""What was changed between two runs is said in the order in which it matters for stalls."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from unhang.findings import Source, Unread
from unhang.knowledge.job.environment_variables import is_relevant, varies_by_start
from unhang.knowledge.job.versions import version_rows
from unhang.wire.documents.run_settings import (
    GpuDescription,
    NodeDescription,
    RunSettings,
    SettingsFile,
    read_run_settings,
)
from unhang_compare.changes import find_changes, find_version_changes

HERE = RunSettings(
    command=("torchrun", "--nproc-per-node", "8", "train.py", "--lr", "1e-4"),
    world_size=8,
    nodes=(NodeDescription("h1", "6.1", 64, 64, 1 << 40),),
    versions={"torch": "2.7.1", "nccl": "2.26.2", "datasets": "3.0.0"},
    environment={"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8"},
    cards=tuple(GpuDescription(index, "H100", f"GPU-{index}", 80 << 30, 16) for index in range(8)),
    files=(SettingsFile("conf/ds.json", "deepspeed", "aa", {"zero_optimization.stage": "2", "note": "x"}),),
    program={"path": "train.py", "sha256": "1" * 64},
)


def test_two_runs_alike_changed_nothing() -> None:
    assert find_changes(HERE, HERE) == ()


def test_what_matters_most_comes_first() -> None:
    there = replace(
        HERE,
        command=("torchrun", "--nproc-per-node", "16", "train.py", "--lr", "2e-4"),
        world_size=16,
        versions={**HERE.versions, "torch": "2.8.0", "datasets": "4.0.0"},
        environment={"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"},
        files=(SettingsFile("conf/ds.json", "deepspeed", "bb", {"zero_optimization.stage": "3", "note": "y"}),),
        program={"path": "train.py", "sha256": "2" * 64},
    )

    found = find_changes(HERE, there)

    names = [change.name for change in found]
    assert names.index("world size") < names.index("NCCL_P2P_DISABLE") < names.index("datasets") < names.index("--lr")
    assert names.index("ds.json: zero_optimization.stage") < names.index("ds.json: note")
    assert [change.matters for change in found] == sorted((change.matters for change in found), reverse=True)
    p2p = found[names.index("NCCL_P2P_DISABLE")]
    assert (p2p.before, p2p.after) == (None, "1")
    assert p2p.because is not None


def test_a_version_known_to_be_bad_leads_and_is_a_finding() -> None:
    row = next(row for row in version_rows() if row.kind == "bad" and row.package == "nccl" and row.affects)
    bad = next(
        version
        for version in (f"2.{minor}.{patch}" for minor in range(10, 31) for patch in range(10))
        if any(change.known_bad for change in find_version_changes({"nccl": "1.0"}, {"nccl": version}))
    )

    found = find_version_changes({"nccl": "1.0", "torch": "2.0"}, {"nccl": bad, "torch": "2.1"})

    assert row is not None
    assert found[0].known_bad
    assert "known of nccl" in str(found[0].because)


def test_other_cards_other_nodes_narrower_lanes() -> None:
    narrower = tuple(replace(card, width=8) if card.index == 3 else card for card in HERE.cards)
    another = tuple(replace(card, uuid="GPU-x") if card.index == 2 else card for card in HERE.cards)

    assert [c.name for c in find_changes(HERE, replace(HERE, cards=narrower))] == ["PCIe lanes of card 3"]
    assert [c.name for c in find_changes(HERE, replace(HERE, cards=another))] == ["card 2"]
    assert [c.name for c in find_changes(HERE, replace(HERE, cards=HERE.cards[:4]))] == ["cards"]
    assert [c.name for c in find_changes(HERE, replace(HERE, nodes=(NodeDescription("h2"),)))] == ["nodes"]


def test_what_only_one_of_two_traces_tells_is_no_change() -> None:
    assert find_version_changes({"torch": "2.7"}, {"cuda": "12.8"}) == ()


@pytest.mark.parametrize(
    "name", ["RANK", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK"]
)
def test_what_every_start_has_anew_is_not_kept(name: str) -> None:
    assert varies_by_start(name)


@pytest.mark.parametrize(
    "name", ["NCCL_IB_DISABLE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HF_HOME", "MASTER_ADDR"]
)
def test_what_a_job_may_depend_on_is_kept(name: str) -> None:
    assert is_relevant(name)
    assert not varies_by_start(name)


def test_what_has_nothing_to_do_with_the_job_is_not_kept() -> None:
    assert not any(is_relevant(name) for name in ("HOME", "SSH_CONNECTION", "EDITOR", "AWS_SECRET_ACCESS_KEY"))


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b'{"schema": "unhang.settings/9"}', b'{"schema": 3}', b"\xff\xfe{", b"{" * 9999]
)
def test_settings_that_are_none_are_unread_in_a_sentence(raw: bytes) -> None:
    found = read_run_settings(raw, source=Source("settings.json"))

    assert isinstance(found, Unread)
    assert "is not a record of a run's settings" in found.reason
