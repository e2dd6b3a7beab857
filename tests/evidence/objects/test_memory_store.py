"""What is read behind a URL says what the same files say on disk; every way to name them; what cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests import leavings
from tests.test_cases import case_folders, name_of
from unhang.diagnosis.jobs import diagnose_jobs
from unhang.errors import EvidenceError, MissingExtra, UsageError
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.found_files import find_files, is_url
from unhang.evidence.inputs import read_evidence
from unhang.evidence.objects.stores import shown_url
from unhang.evidence.read_limits import DEFAULT_LIMITS, ReadLimits
from unhang.report.verdict_document import to_json

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (PyPI: fsspec)")


@pytest.fixture
def store() -> Iterator[Any]:
    """An empty store in the memory of this process."""
    found = fsspec.filesystem("memory")
    found.store.clear()
    found.pseudo_dirs[:] = [""]
    yield found
    found.store.clear()
    found.pseudo_dirs[:] = [""]


def put(store: Any, folder: Path, at: str) -> None:
    """``folder`` with the times of its files."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = f"{at}/{path.relative_to(folder).as_posix()}"
            store.pipe_file(key, path.read_bytes())
            store.store[key].created = datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)


def verdicts(place: str) -> str:
    jobs = diagnose_jobs(read_evidence([place]))
    told = [(job.verdict, job.files.evidence.inputs) for job in jobs] if len(jobs) > 1 else ()
    return to_json(jobs[0].verdict, jobs=told)


def one_of_each_cause() -> list[Path]:
    firsts = {folder.parent.name: folder for folder in reversed(case_folders())}
    return sorted(firsts.values())


@pytest.mark.parametrize("folder", one_of_each_cause(), ids=name_of)
def test_a_case_is_judged_the_same_behind_a_url(store: Any, folder: Path) -> None:
    place = folder / "input"
    put(store, place, "/evidence/case")

    told = verdicts("memory://evidence/case")

    assert told.replace("memory://evidence/case", str(place)) == verdicts(str(place))
    assert verdicts(place.as_uri()).replace(place.as_uri(), str(place)) == verdicts(str(place))


@pytest.fixture
def bundle(store: Any, tmp_path: Path) -> Any:
    put(store, leavings.write_bundle(tmp_path / "run"), "/runs/monday")
    return store


def logs_of(evidence: EvidenceSet) -> list[str]:
    return sorted(log.source.path for log in evidence.logs)


@pytest.mark.parametrize(
    ("url", "ranks"),
    [
        ("memory://runs/monday", [0, 1, 2, 3]),
        ("memory://runs/monday/", [0, 1, 2, 3]),
        ("memory://runs/*", [0, 1, 2, 3]),
        ("memory://runs/monday/logs/rank[12].log", [1, 2]),
        ("memory://runs/**/rank3.log", [3]),
        ("memory://runs/monday/logs/rank?.log", [0, 1, 2, 3]),
        ("memory://runs/monday/logs/rank2.log", [2]),
    ],
)
def test_a_folder_a_glob_and_one_object(bundle: Any, url: str, ranks: list[int]) -> None:
    assert logs_of(read_evidence([url])) == [f"memory://runs/monday/logs/rank{rank}.log" for rank in ranks]


def test_urls_and_paths_in_any_mix_each_object_once(bundle: Any, tmp_path: Path) -> None:
    logs = tmp_path / "run" / "logs"

    evidence = read_evidence(["memory://runs/monday/logs/rank0.log", str(logs), "memory://runs/monday/logs"])

    assert len(evidence.logs) == 8
    assert evidence.inputs == ["memory://runs/monday/logs/rank0.log", str(logs), "memory://runs/monday/logs"]


def test_a_name_with_a_sign_of_globs_in_it(store: Any) -> None:
    store.pipe_file("/runs/job[1].log", leavings.watchdog_log(1).encode())

    assert logs_of(read_evidence(["memory://runs/job[1].log"])) == ["memory://runs/job[1].log"]


def test_archives_are_read_where_they_are(store: Any, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("rank1.log", leavings.watchdog_log(1))
    store.pipe_file("/runs/node.zip", packed.getvalue())
    store.pipe_file("/runs/rank2.log.gz", gzip.compress(leavings.watchdog_log(2).encode()))

    assert logs_of(read_evidence(["memory://runs"])) == [
        "memory://runs/node.zip!rank1.log",
        "memory://runs/rank2.log.gz!rank2.log",
    ]


def test_a_log_of_many_requests_is_read_as_on_disk(store: Any, tmp_path: Path) -> None:
    line = b"2026-11-26 10:00:00 INFO step %d loss 2.13 lr 0.0001 tokens per second 12345\n"
    log = b"".join(line % step for step in range(300_000)) + leavings.watchdog_log(5).encode()
    (tmp_path / "rank5.log").write_bytes(log)
    put(store, tmp_path, "/runs")

    there, here = read_evidence(["memory://runs"]).logs[0], read_evidence([str(tmp_path)]).logs[0]

    assert len(log) > 2 * (8 << 20)
    assert (there.lines, there.rank, len(there.events)) == (here.lines, here.rank, len(here.events))
    assert there.events


def test_folders_of_tools_and_too_much_are_left_out(store: Any) -> None:
    for number in range(5):
        store.pipe_file(f"/runs/rank{number}.log", leavings.watchdog_log(number).encode())
    store.pipe_file("/runs/.git/rank9.log", b"x")
    store.pipe_file("/runs/" + "a/" * 6 + "rank8.log", b"x")

    found = find_files(["memory://runs"], ReadLimits(files=3, depth=5))

    assert [file.name for file in found.files] == [f"memory://runs/rank{number}.log" for number in range(3)]
    assert {item.reason for item in found.unread} == {
        "holds folders more than 5 deep; they were not looked into",
        "holds more than 3 files; the rest was not looked at",
    }


def test_what_is_not_there_is_said(store: Any) -> None:
    with pytest.raises(UsageError, match=r"nothing to read: memory://nowhere does not exist"):
        read_evidence(["memory://nowhere"])


def test_an_object_that_goes_after_it_was_listed(bundle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find = bundle.find

    def find_and_remove(path: str, **options: Any) -> Any:
        found = find(path, **options)
        del bundle.store["/runs/monday/logs/rank2.log"]
        return found

    monkeypatch.setattr(type(bundle), "find", lambda _self, path, **options: find_and_remove(path, **options))

    evidence = read_evidence(["memory://runs/monday"])

    gone = [item for item in evidence.unread if item.source.path.endswith("rank2.log")]
    assert gone[0].reason == "is gone: it was there when its folder was listed"
    assert len(evidence.logs) == 3


def test_an_object_that_was_cut_after_it_was_listed(bundle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find = bundle.find

    def find_and_cut(path: str, **options: Any) -> Any:
        found = find(path, **options)
        bundle.pipe_file("/runs/monday/logs/rank2.log", b"x")
        return found

    monkeypatch.setattr(type(bundle), "find", lambda _self, path, **options: find_and_cut(path, **options))

    evidence = read_evidence(["memory://runs/monday"])

    assert [item.reason for item in evidence.unread if item.source.path.endswith("rank2.log")] == [
        "was replaced after it was listed"
    ]


def test_a_scheme_that_nobody_reads_and_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^nosuch://x/y is not a URL that can be read$"):
        read_evidence(["nosuch://x/y"])
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(MissingExtra, match=r"^reading gs:// needs gcsfs$") as missing:
        read_evidence(["gs://bucket/run"])
    assert missing.value.next_step == "pip install gcsfs"


def test_what_is_an_address_and_what_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log:").mkdir()
    (tmp_path / "log:" / "x").write_text("x")

    assert is_url("s3://bucket/run")
    assert not any(map(is_url, ["C://logs", "a:b", "run/s3://x", "://x", "log://x", "日志://x"]))


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("s3://bucket/run/*.log", "s3://bucket/run/*.log"),
        ("s3://bucket/run?/x", "s3://bucket/run?/x"),
        ("s3://bucket/x.log?versionId=a1B2", "s3://bucket/x.log?versionId=a1B2"),
        ("https://host/x.log?X-Amz-Signature=abc&X-Amz-Date=1", "https://host/x.log"),
        ("https://user:word@host/x", "https://host/x"),
        ("https://token@host/x", "https://host/x"),
        ("sftp://me:word@host:22/logs", "sftp://host:22/logs"),
        ("sftp://me@host/logs", "sftp://me@host/logs"),
        ("abfs://logs@account.dfs.core.windows.net/run", "abfs://logs@account.dfs.core.windows.net/run"),
        ("abfs://logs/run?sv=2022&sig=secret", "abfs://logs/run"),
    ],
)
def test_nothing_secret_in_a_url_is_shown(typed: str, shown: str) -> None:
    assert shown_url(typed) == shown


def test_the_bar_hears_of_all_bytes(bundle: Any) -> None:
    heard: list[tuple[int, int]] = []

    read_evidence(["memory://runs/monday"], progress=lambda done, total, _name: heard.append((done, total)))

    found = find_files(["memory://runs/monday"], DEFAULT_LIMITS)
    assert {total for _, total in heard} == {sum(file.size for file in found.files)}
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)


def test_nothing_readable_is_one_sentence(store: Any) -> None:
    store.pipe_file("/runs/empty.log", b"")

    with pytest.raises(EvidenceError, match=r"nothing here can be read .* memory://runs/empty\.log: is an empty file"):
        read_evidence(["memory://runs"])


def test_a_verdict_names_the_url(bundle: Any) -> None:
    assert "memory://runs/monday/" in json.loads(verdicts("memory://runs/monday"))["findings"][0].__str__()
