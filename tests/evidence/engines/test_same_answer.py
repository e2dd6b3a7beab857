"""Whoever reads, the answer is the same to the byte."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.evidence.engines.clusters import CASES, FOLDERS, dask_cluster, verdicts


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Case folders, two of them in one, and one in an archive beside files that are no evidence."""
    place = tmp_path_factory.mktemp("folders")
    with tarfile.open(place / "run.tar.gz", "w:gz") as archive:
        archive.add(FOLDERS[0], "run")
    (place / "empty.log").touch()
    (place / "rank_3.pkl").write_bytes(b"\x80\x04nothing")
    (place / "picture.png").write_bytes(b"\x89PNG")
    return [*FOLDERS, place]


@pytest.fixture(scope="module")
def truth(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return verdicts("", "", folders, tmp_path_factory.mktemp("truth"))


def test_processes_of_this_machine(folders: list[Path], truth: list[str], tmp_path: Path) -> None:
    assert verdicts("local", "", folders, tmp_path) == truth


def test_a_cluster_of_dask(folders: list[Path], truth: list[str], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with dask_cluster(tmp_path) as address:
        assert verdicts("dask", address, folders, tmp_path) == truth


@pytest.mark.live
def test_dask_started_by_us(folders: list[Path], truth: list[str], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    assert verdicts("dask", "", folders[:2], tmp_path) == truth[:2]


@pytest.mark.live
def test_ray_started_by_us(folders: list[Path], truth: list[str], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    assert verdicts("ray", "", folders[-2:], tmp_path, limit_s=200) == truth[-2:]


@pytest.mark.live
def test_every_tenth_case_by_processes_of_this_machine(tmp_path: Path) -> None:
    some = sorted(CASES.glob("*/*/input"))[::10]
    assert verdicts("local", "", some, tmp_path, limit_s=400) == verdicts("", "", some, tmp_path, limit_s=400)
