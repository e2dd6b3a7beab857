"""What was given ends where it ends: links that lead out of it are named, never followed, never copied."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

import pytest

from tests.command import unhang
from tests.work import calls_of
from unhang.evidence import found_files
from unhang.evidence.evidence_parts import EvidenceParts
from unhang.evidence.evidence_reader import EvidenceReader
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.inputs import read_evidence
from unhang.evidence.opened_files import OpenedFiles
from unhang.evidence.read_limits import DEFAULT_LIMITS
from unhang.findings import Unread

OUT = "is a link that leads out of what was given; it was not followed"
LINE = "[rank0]: RuntimeError: step {} failed\n"
FEW_CALLS = 10_000
"""Reading the job makes 2,000; whoever walked through a machine would make millions."""
SECRET = "[rank7]: RuntimeError: someone else's secret\n"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "rank0.log").write_text(LINE.format(1) * 3)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "rank7.log").write_text(SECRET)
    return folder


def unread(evidence: EvidenceSet) -> dict[str, str]:
    return {Path(item.source.path).name: item.reason for item in evidence.unread}


def logs(evidence: EvidenceSet) -> list[str]:
    return sorted(Path(log.source.path).name for log in evidence.logs)


@pytest.mark.parametrize("target", ["../outside/rank7.log", "../outside", "..", "/", "/proc", "/dev"])
def test_a_link_that_leads_out_is_named_and_not_followed(job: Path, target: str) -> None:
    (job / "rank9.log").symlink_to(target)
    evidence = read_evidence([str(job)])

    assert logs(evidence) == ["rank0.log"]
    assert unread(evidence) == {"rank9.log": OUT}
    assert calls_of(lambda: read_evidence([str(job)])) < FEW_CALLS


def test_a_chain_of_links_is_judged_by_its_end(job: Path, tmp_path: Path) -> None:
    (job / "first.log").symlink_to("second.log")
    (job / "second.log").symlink_to("../outside/rank7.log")
    (tmp_path / "back").symlink_to(job / "rank0.log")
    (job / "around.log").symlink_to("../back")

    evidence = read_evidence([str(job)])

    assert len(evidence.logs) == 1  # one file under two names
    assert unread(evidence) == {"first.log": OUT, "second.log": OUT}


def test_links_that_stay_inside_are_read(job: Path) -> None:
    (job / "store").mkdir()
    (job / "store" / "blob").write_text(LINE.format(2))
    (job / "a").mkdir()
    (job / "a" / "rank1.log").symlink_to("../store/blob")

    assert logs(read_evidence([str(job / "a"), str(job / "store"), str(job)])) == ["rank0.log", "rank1.log"]
    assert "rank1.log" not in unread(read_evidence([str(job)]))


def test_links_between_two_things_that_were_given_are_inside(job: Path, tmp_path: Path) -> None:
    (job / "rank7.log").symlink_to("../outside/rank7.log")

    assert logs(read_evidence([str(job), str(tmp_path / "outside")])) == ["rank0.log", "rank7.log"]


def test_loops_end(job: Path) -> None:
    (job / "self").symlink_to("self")
    (job / "one").symlink_to("two")
    (job / "two").symlink_to("one")
    (job / "up").symlink_to(".")

    evidence = read_evidence([str(job)])

    assert logs(evidence) == ["rank0.log"]
    assert set(unread(evidence)) == {"self", "one", "two"}


def test_a_link_named_by_the_user_is_read(job: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(job)
    (tmp_path / "latest.log").symlink_to(job / "rank0.log")

    assert logs(read_evidence([str(tmp_path / "latest")])) == ["rank0.log"]
    assert logs(read_evidence([str(tmp_path / "latest.log")])) == ["latest.log"]
    assert logs(read_evidence([str(tmp_path / "late*.log")])) == ["latest.log"]


def test_a_recursive_glob_does_not_leave_its_folder(job: Path) -> None:
    (job / "root").symlink_to("/")
    (job / "out").symlink_to("../outside")
    evidence = read_evidence([f"{job}/**/*.log"])

    assert logs(evidence) == ["rank0.log"]
    assert logs(read_evidence([f"{job}/**"])) == ["rank0.log"]
    assert calls_of(lambda: read_evidence([f"{job}/**"])) < FEW_CALLS


def test_pipes_sockets_and_devices_in_a_folder_are_not_opened(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(job / "rank1.log")
    monkeypatch.chdir(job)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("rank2.log")
        evidence = read_evidence([str(job)])

    assert logs(evidence) == ["rank0.log"]
    assert {"rank1.log", "rank2.log"} == set(unread(evidence))


@pytest.mark.parametrize("dump", [False, True], ids=["a log", "a dump"])
@pytest.mark.parametrize("swapped", ["for a link", "for another file", "for a pipe", "its folder for a link"])
def test_a_file_that_is_swapped_after_the_listing_is_not_read(
    job: Path, tmp_path: Path, swapped: str, dump: bool
) -> None:
    content = b'{"pg_config": {}, "entries": [], "version": "2.4"}' if dump else LINE.format(3).encode()
    (job / "sub").mkdir()
    victim = job / "sub" / "rank7.log"
    victim.write_bytes(content)
    (tmp_path / "outside" / "rank7.log").write_bytes(content)
    found = found_files.find_files([str(job / "sub")], DEFAULT_LIMITS)
    reader, parts = EvidenceReader(DEFAULT_LIMITS), EvidenceParts([], DEFAULT_LIMITS)

    def swap() -> None:
        if swapped == "its folder for a link":
            victim.parent.rename(job / "old")
            victim.parent.symlink_to(tmp_path / "outside")
            return
        victim.rename(job / "old.log")
        if swapped == "for a link":
            victim.symlink_to(tmp_path / "outside" / "rank7.log")
        elif swapped == "for a pipe":
            os.mkfifo(victim)
        else:
            victim.write_bytes(content)

    if dump:  # its first bytes are looked at with all others, the rest is read at the end
        for piece in OpenedFiles(found, DEFAULT_LIMITS):
            reader.take(piece)
        swap()
    else:
        swap()
        for piece in OpenedFiles(found, DEFAULT_LIMITS):
            reader.take(piece)
    parts.add(0, reader.part())
    evidence = parts.joined()

    assert (evidence.logs, evidence.recorder_dumps) == ([], [])
    assert ["is no longer the file" in item.reason for item in evidence.unread] == [True]


def test_a_dump_named_by_a_link_is_read(job: Path) -> None:
    (job / "dump.json").write_bytes(b'{"pg_config": {}, "entries": [], "version": "2.4"}')
    (job / "named.json").symlink_to("dump.json")

    assert not isinstance(read_recorder_dump(job / "named.json"), Unread)


def test_a_saved_case_holds_nothing_from_outside(job: Path, tmp_path: Path) -> None:
    (job / "rank7.log").symlink_to("../outside/rank7.log")
    (job / "all").symlink_to("/")

    ran = unhang("diagnose", str(job), "--save-case", str(tmp_path / "case"))

    kept = [path for path in (tmp_path / "case").rglob("*") if path.is_file()]
    assert ran.returncode in (0, 1, 2, 3)
    assert kept
    assert not any(path.is_symlink() or "secret" in path.read_text() for path in kept)


def test_a_link_to_everything_costs_no_memory(job: Path) -> None:
    (job / "all").symlink_to("/")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read_evidence([str(job)])

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("words", [["compare"], ["view", "--perfetto", "out.json"]])
def test_other_verbs_follow_no_link_out(words: list[str], job: Path, tmp_path: Path) -> None:
    (job / "trace_7.json").symlink_to(tmp_path / "outside" / "rank7.log")
    (job / "all").symlink_to("/")
    more = [str(job)] if words == ["compare"] else []

    ran = unhang(words[0], str(job), *more, *words[1:], folder=tmp_path)

    assert ran.returncode == 2
    assert "secret" not in ran.stdout + ran.stderr
