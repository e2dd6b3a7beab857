"""Anything the user names is read, whatever it is called; what cannot be read is said, never lost."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import shutil
import socket
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import leavings
from unhang.errors import EvidenceError, UsageError
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.inputs import read_evidence
from unhang.evidence.read_limits import ReadLimits


def reasons(evidence: EvidenceSet) -> dict[str, str]:
    return {item.source.path: item.reason for item in evidence.unread}


def recorded_ranks(evidence: EvidenceSet) -> list[int | None]:
    return sorted(recording.rank for recording in evidence.recorder_dumps if recording.rank is not None)


def test_a_folder_is_read_whole_and_each_file_by_its_content(tmp_path: Path) -> None:
    leavings.write_bundle(tmp_path / "run")

    evidence = read_evidence([str(tmp_path / "run")])

    assert recorded_ranks(evidence) == [0, 1, 2, 3]
    assert len(evidence.logs) == 4
    assert len(evidence.manifests) == 1
    assert evidence.unread == []


def test_the_manifest_gives_stacks_their_rank_and_sources_their_path(tmp_path: Path) -> None:
    leavings.write_bundle(tmp_path / "run")

    evidence = read_evidence([str(tmp_path / "run")])

    assert {dump.pid: dump.rank for dump in evidence.stacks} == {1000: 0, 1001: 1, 1002: 2, 1003: 3}
    assert [(file.path, file.text) for file in evidence.sources] == [(leavings.TRAIN, leavings.PROGRAM)]


def test_names_do_not_decide(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(leavings.dump_bytes())
    (tmp_path / "dump.pkl").write_text(leavings.watchdog_log(1))
    (tmp_path / "job.log").write_text(leavings.stack(7))

    evidence = read_evidence([str(tmp_path)])

    assert [item.source.path for item in evidence.recorder_dumps] == [str(tmp_path / "picture.png")]
    assert [item.source.path for item in evidence.logs] == [str(tmp_path / "dump.pkl")]
    assert [item.source.path for item in evidence.stacks] == [str(tmp_path / "job.log")]


@pytest.mark.parametrize("packer", ["tar", "gztar", "xztar", "bztar", "zip"])
def test_a_bundle_reads_the_same_packed(tmp_path: Path, packer: str) -> None:
    folder = leavings.write_bundle(tmp_path / "run")
    packed = shutil.make_archive(str(tmp_path / "packed"), packer, folder.parent, folder.name)

    evidence = read_evidence([packed])

    assert recorded_ranks(evidence) == [0, 1, 2, 3]
    assert sorted(dump.rank or 0 for dump in evidence.stacks) == [0, 1, 2, 3]
    assert [file.path for file in evidence.sources] == [leavings.TRAIN]
    assert min(log.source.path for log in evidence.logs) == f"{packed}!run/logs/rank0.log"
    assert evidence.unread == []


def test_a_compressed_log_and_a_packed_archive_inside_an_archive(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        info = tarfile.TarInfo("rank2.log")
        info.size = len(leavings.watchdog_log(2))
        archive.addfile(info, io.BytesIO(leavings.watchdog_log(2).encode()))
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as outer:
        outer.writestr("node1.tar.gz", inner.getvalue())
        outer.writestr("rank5.log.gz", gzip.compress(leavings.watchdog_log(5).encode()))

    evidence = read_evidence([str(tmp_path)])

    assert {log.source.path.split("!", 1)[1]: log.rank for log in evidence.logs} == {
        "node1.tar.gz!rank2.log": 2,
        "rank5.log.gz!rank5.log": 5,
    }


def test_an_entry_without_a_name_costs_only_itself(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("~", "nothing")
        archive.writestr("rank1.log", leavings.watchdog_log(1))
    (tmp_path / "a.zip").write_bytes(held.getvalue().replace(b"~", b"\0"))

    evidence = read_evidence([str(tmp_path / "a.zip")])

    assert [log.rank for log in evidence.logs] == [1]
    assert "without a name" in "".join(reasons(evidence).values())


def test_quoted_globs_and_the_same_file_named_twice(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.log").write_text(leavings.watchdog_log(rank))
    (tmp_path / "rank1-again.log").symlink_to(tmp_path / "rank1.log")
    (tmp_path / "around").symlink_to(tmp_path)

    evidence = read_evidence([str(tmp_path / "*.log"), str(tmp_path), str(tmp_path / "rank0.log")])

    assert len(evidence.logs) == 3


def test_standard_input_takes_a_log_or_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("rank1.log", leavings.watchdog_log(1))
    for content, name in (
        (leavings.watchdog_log(0).encode(), "stdin"),
        ((tmp_path / "a.zip").read_bytes(), "stdin!rank1.log"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

        evidence = read_evidence(["-"])

        assert [log.source.path for log in evidence.logs] == [name]


def test_pipes_sockets_and_devices_are_named_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dump.pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    (tmp_path / "rank0.log").write_text(leavings.watchdog_log(0))

    evidence = read_evidence([str(tmp_path), "/dev/null"])
    listener.close()

    assert "named pipe" in reasons(evidence)[str(tmp_path / "dump.pipe")]
    assert "socket" in reasons(evidence)[str(tmp_path / "s")]
    assert "device" in reasons(evidence)["/dev/null"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter."""
    with tempfile.TemporaryDirectory(prefix="unhang-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up a right for a moment; see test_bad_input.py")
def test_a_file_that_may_not_be_read_is_named_beside_what_was_read(open_folder: Path) -> None:
    folder = open_folder
    for rank in range(2):
        (folder / f"rank{rank}.log").write_text(leavings.watchdog_log(rank))
    (folder / "rank1.log").chmod(0)
    read_evidence([str(folder)])  # loads every module while it may still be read
    os.seteuid(65534)
    try:
        evidence = read_evidence([str(folder)])
    finally:
        os.seteuid(0)

    assert len(evidence.logs) == 1
    assert "permission" in reasons(evidence)[str(folder / "rank1.log")]


def test_files_that_hold_no_evidence_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(leavings.watchdog_log(0))
    for index in range(5):
        (tmp_path / f"{index}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}.")
    (tmp_path / "a.safetensors").write_bytes((64).to_bytes(8, "little") + b'{"__metadata__":{}}')
    (tmp_path / "config.json").write_text('{\n  "hidden_size": 4096\n}\n')
    (tmp_path / "verdict.json").write_text('{\n  "schema": "unhang.verdict/1"\n}\n')

    evidence = read_evidence([str(tmp_path)])

    assert len(evidence.logs) == 1
    assert sum("5" in reason or "4 more" in reason for reason in reasons(evidence).values()) == 1
    assert len(evidence.unread) == 4


def test_an_empty_dump_is_a_lost_rank_and_an_empty_log_is_not(tmp_path: Path) -> None:
    leavings.write_dumps(tmp_path, ranks=3, laggard=None)
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"")
    (tmp_path / "attempt_0" / "0").mkdir(parents=True)
    (tmp_path / "attempt_0" / "0" / "stdout.log").write_bytes(b"")

    evidence = read_evidence([str(tmp_path)])

    assert [(item.source.path, item.rank) for item in evidence.unread] == [(str(tmp_path / "nccl_trace_rank_2"), 2)]


def test_an_empty_log_alone_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(b"")

    with pytest.raises(EvidenceError, match="empty"):
        read_evidence([str(tmp_path)])


def test_restart_attempts_are_told_apart(tmp_path: Path) -> None:
    for attempt in range(2):
        folder = tmp_path / f"attempt_{attempt}" / "3"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(leavings.watchdog_log(3))

    evidence = read_evidence([str(tmp_path)])

    assert sorted((log.attempt, log.rank) for log in evidence.logs) == [(0, 3), (1, 3)]


def test_a_log_with_a_hole_in_front_is_still_a_log(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    with path.open("wb") as file:
        file.truncate(200_000)
        file.seek(200_000)
        file.write(leavings.watchdog_log(0).encode())

    assert len(read_evidence([str(path)]).logs) == 1


def test_a_stack_inside_a_log_is_read_with_the_lines_of_the_log(tmp_path: Path) -> None:
    crash = (
        "Fatal Python error: Aborted\n\nThread 0x00007f6a1b7fe700 (most recent call first):\n"
        f'  File "{leavings.LIBRARY}", line 3245 in all_reduce\n  File "{leavings.TRAIN}", line 6 in main\n\n'
    )
    before = "".join(f"{line} {'word ' * 100}\n" for line in range(5_000))
    (tmp_path / "rank2.log").write_text(before + crash)

    evidence = read_evidence([str(tmp_path)])

    (dump,) = evidence.stacks
    assert (dump.rank, dump.threads[0].line, len(evidence.logs)) == (2, 5_003, 1)
    assert [frame.line for frame in dump.threads[0].frames] == [3245, 6]


def test_nothing_there_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read_evidence([str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match="no files"):
        read_evidence([str(tmp_path)])


def test_a_missing_name_beside_a_good_one_is_unread(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(leavings.watchdog_log(0))

    evidence = read_evidence([str(tmp_path), str(tmp_path / "gone.log")])

    assert reasons(evidence)[str(tmp_path / "gone.log")] == "does not exist"


def test_a_zip_bomb_stops_at_its_limit(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(leavings.watchdog_log(0))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big.log", b"step 1\n" * 5_000_000)
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as packed:
        info = tarfile.TarInfo("picture")
        info.size = 60_000_000
        packed.addfile(info, io.BytesIO(bytes(info.size)))

    evidence = read_evidence([str(tmp_path)], limits=ReadLimits(ratio=10, ratio_floor=1_000_000))

    stopped = {item.source.path for item in evidence.unread if "more than 10 times" in item.reason}
    assert {Path(path.split("!")[0]).name for path in stopped} == {"bomb.zip", "bomb.tar.gz"}


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/passwd", "..\\x", "C:\\x"])
def test_members_that_leave_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "step 1\n")
        archive.writestr("rank0.log", leavings.watchdog_log(0))

    evidence = read_evidence([str(tmp_path / "a.zip")])

    assert len(evidence.logs) == 1
    assert any("outside" in reason for reason in reasons(evidence).values())


@pytest.mark.parametrize("packer", ["tar", "gztar", "xztar", "zip"])
def test_damaged_archives_never_raise_anything_else(tmp_path: Path, packer: str) -> None:
    folder = leavings.write_bundle(tmp_path / "run", ranks=1, laggard=0)
    whole = Path(shutil.make_archive(str(tmp_path / "packed"), packer, folder.parent, folder.name)).read_bytes()
    damaged = tmp_path / "damaged"
    for seed in range(25):
        dice = random.Random(seed)
        content = bytearray(whole[: dice.randrange(len(whole))] if dice.random() < 0.3 else whole)
        for _ in range(dice.choice((1, 8, 40))):
            content[dice.randrange(len(content) or 1)] = dice.randrange(256)
        damaged.write_bytes(content)

        with contextlib.suppress(EvidenceError):
            read_evidence([str(damaged)])


def test_links_in_archives_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("job.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        info = tarfile.TarInfo("rank0.log")
        info.size = len(leavings.watchdog_log(0))
        archive.addfile(info, io.BytesIO(leavings.watchdog_log(0).encode()))

    evidence = read_evidence([str(tmp_path / "a.tar")])

    assert len(evidence.logs) == 1
    assert any("link" in reason for reason in reasons(evidence).values())


def test_a_torn_archive_gives_what_it_holds(tmp_path: Path) -> None:
    folder = leavings.write_bundle(tmp_path / "run", ranks=8)
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "gztar", folder.parent, folder.name))
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) * 2 // 3])

    evidence = read_evidence([str(packed)])

    assert evidence.recorder_dumps or evidence.logs
    assert any("cut short" in reason or "damaged" in reason for reason in reasons(evidence).values())


def test_an_encrypted_zip_says_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("rank0.log", leavings.watchdog_log(0))
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)

    with pytest.raises(EvidenceError, match="encrypted"):
        read_evidence([str(tmp_path / "a.zip")])


def test_progress_ends_at_the_sum_of_all_bytes(tmp_path: Path) -> None:
    leavings.write_bundle(tmp_path / "run")
    told: list[tuple[int, int, str]] = []

    read_evidence([str(tmp_path)], progress=lambda done, total, name: told.append((done, total, name)))

    total = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert told[-1][:2] == (total, total)
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)


def test_what_a_rank_was_writing_when_it_was_ended_is_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / ".rank_1.7777.140553527995264").write_bytes(b"")
    (tmp_path / "rank_0.log").write_text("step 1 loss 0.91\n")

    found = read_evidence([str(tmp_path)])

    assert found.unread == []
    assert [log.source.path for log in found.logs] == [str(tmp_path / "rank_0.log")]
