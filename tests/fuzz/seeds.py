"""What the fuzzer starts from: every case folder of the repository, and what earlier runs found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "cases"
CORPUS = Path(__file__).with_name("corpus")
MANIFEST = "bundle.json"
HEALTHY = Path(__file__).with_name("healthy.txt")
MAX_BYTES = 256 << 10
"""Larger files of a case are left out: they cost time and hold more of the same."""


@dataclass(frozen=True, eq=False)
class Seed:
    """A folder of evidence. ``causes``: what a certain finding may say of it; ``troubled``: it must not be healthy.
    ``ended_well``: it crashed, was started again and ended well, so that what damage leaves of it may be well.
    """

    name: str
    files: Mapping[str, bytes]
    troubled: bool = False
    causes: frozenset[str] = field(default_factory=frozenset)
    ended_well: bool = False

    @property
    def moves(self) -> bool:
        """It is a look at a job that moved: what is wrong with it stands in single files."""
        return b'"moving":true' in self.files.get(MANIFEST, b"").replace(b" ", b"")


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` by its path there."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size <= MAX_BYTES)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def healthy_names() -> tuple[str, ...]:
    """Cases, lab twins and repaired stories that show steps to the end: they are healthy, whatever else changes."""
    lines = (line.partition("#")[0].strip() for line in HEALTHY.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)


@cache
def case_seeds() -> tuple[Seed, ...]:
    """One for each case folder."""
    folders = sorted(path.parent for path in CASES.glob("*/*/expected.json"))
    return tuple(filter(lambda seed: seed.files, map(_seed, folders)))


def _seed(folder: Path) -> Seed:
    wanted: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    findings = wanted.get("findings") or [wanted]
    causes = {str(one["cause"]) for one in findings if one.get("cause")} | set(wanted.get("also", ()))
    fine = wanted.get("status") == "healthy" or wanted.get("exit_code") == 0 or not causes
    files, well = listed(files_of(folder / "input")), bool(wanted.get("ended_well"))
    return Seed(f"{folder.parent.name}/{folder.name}", files, not fine, frozenset(causes), well)


def listed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """``files`` with what a recorder of today would list in their manifest; many cases are older than the list."""
    try:
        manifest = json.loads(files.get(MANIFEST, b""))
    except ValueError:
        return dict(files)
    manifest["files"] = sorted(name for name in files if name != MANIFEST)
    return {**files, MANIFEST: json.dumps(manifest, indent=1).encode()}


@cache
def found_before(target: str) -> tuple[Seed, ...]:
    """Inputs on which an earlier version failed, one folder each."""
    place = CORPUS / target
    folders = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    return tuple(Seed(folder.name, files_of(folder)) for folder in folders)


def write_files(files: Mapping[str, bytes], place: Path) -> None:
    """``files`` below ``place``; names that no file can have are left out."""
    for name, content in files.items():
        path = place / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (OSError, ValueError):
            continue
