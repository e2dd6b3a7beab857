"""NCCL's lines go to a file of ours only where nobody decided, and where a file can be made."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.inprocess.capture import nccl_startup_log


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rank's surroundings, with a torch for NVIDIA's cards."""
    for name in [name for name in os.environ if name.startswith(("NCCL_", "UNHANG_"))]:
        monkeypatch.delenv(name)
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)  # so that what the code sets is taken back
    monkeypatch.setenv("UNHANG_RUN", str(tmp_path / "records"))
    monkeypatch.setenv("HOME", str(tmp_path))
    version = types.SimpleNamespace(cuda="12.8", hip=None)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(version=version))  # type: ignore[arg-type]
    return tmp_path / "records"


def settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("NCCL_DEBUG")}


@pytest.mark.parametrize("backend", ["nccl", "", "cpu:gloo,cuda:nccl"])
def test_only_lines_of_the_start_are_asked_for_in_a_private_file_named_by_rank(backend: str, records: Path) -> None:
    nccl_startup_log.enable_startup_log(3, backend)

    assert settings() == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV",
        "NCCL_DEBUG_FILE": f"{records}/nccl/rank_3.%h.%p.log",
    }
    assert (records / "nccl").stat().st_mode & 0o77 == 0
    assert list((records / "nccl").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_DEBUG", ""),
        ("NCCL_DEBUG_FILE", "/tmp/x"),
        ("NCCL_DEBUG_SUBSYS", "COLL"),
        ("NCCL_DEBUG_TIMESTAMP_FORMAT", "%F"),
        ("UNHANG_NCCL_LINES", "off"),
    ],
)
def test_whoever_set_one_of_them_has_decided(
    name: str, value: str, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    before = settings()

    nccl_startup_log.enable_startup_log(0, "nccl")

    assert settings() == before
    assert not records.exists()


def test_so_has_who_wrote_it_into_nccls_own_file(records: Path, tmp_path: Path) -> None:
    (tmp_path / ".nccl.conf").write_text("NCCL_DEBUG=WARN\n")

    nccl_startup_log.enable_startup_log(0, "nccl")

    assert settings() == {}


@pytest.mark.parametrize("why", ["gloo", "no card", "no rank", "a file in the way", "a name NCCL would change"])
def test_nothing_is_set_where_it_would_be_of_no_use_or_print_to_the_terminal(
    why: str, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "no card":
        version = types.SimpleNamespace(cuda=None)
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(version=version))  # type: ignore[arg-type]
    if why == "a file in the way":
        records.mkdir()
        (records / "nccl").write_text("")
    if why == "a name NCCL would change":
        monkeypatch.setenv("UNHANG_RUN", f"{records}%h")

    nccl_startup_log.enable_startup_log(-1 if why == "no rank" else 0, "gloo" if why == "gloo" else "nccl")

    assert settings() == {}


def test_a_kept_file_is_read_as_the_log_of_its_rank(tmp_path: Path) -> None:
    (tmp_path / "nccl").mkdir()
    line = "node-a:4003:4103 [3] NCCL INFO Channel 00/0 : 3[3] -> 0[0] via P2P/CUMEM\n"
    (tmp_path / "nccl" / "rank_3.node-a.4003.log").write_text(line)

    (log,) = read_evidence([str(tmp_path)]).logs

    assert (log.rank, [event.kind for event in log.events]) == (3, ["n.channel"])
