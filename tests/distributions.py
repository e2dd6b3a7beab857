"""Both distributions as a release builds them, and environments that hold nothing but what unhang depends on."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import tomli
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LAB = ROOT / "packages" / "unhang-lab"
PROJECT = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["extras"]


def build(to: Path) -> Path:
    """Leave two sdists and their wheels in ``to``."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PYTHON": sys.executable}
    command = [ROOT / "scripts" / "build_distributions.sh", to]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=200)
    return to


class BareEnvironment:
    """``unhang`` is not in it yet, and never torch, which it only claims to have: nothing but a lab job needs it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        (self.site,) = (folder / "lib").glob("python*/site-packages")
        shown = folder / "dependencies"
        shown.mkdir()
        for path in _files([*PROJECT["project"]["dependencies"], "hatchling"]):
            (shown / path.name).symlink_to(path)
        (self.site / "dependencies.pth").write_text(f"{shown}\n", encoding="utf-8")
        claimed = self.site / "torch-2.13.0.dist-info"
        claimed.mkdir()
        (claimed / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n", encoding="utf-8")
        pip = shlex.join([sys.executable, "-m", "pip", "--python", str(self.bin / "python")])
        options = "--no-index --no-build-isolation --no-compile --disable-pip-version-check --quiet"
        script = self.bin / "pip"
        script.write_text(f'#!/bin/sh\nshift; exec {pip} install {options} "$@"\n', encoding="utf-8")
        script.chmod(0o755)

    def run(self, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """``command`` as typed into a shell where this environment is activated."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "UNHANG_"))}
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.bin.parent,
            env={**kept, "PATH": f"{self.bin}:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def install(self, *words: str | Path) -> None:
        """``pip install``; raises where it fails."""
        done = self.run(shlex.join(["pip", "install", *map(str, words)]))
        assert done.returncode == 0, done.stderr


def _files(requirements: Iterable[str]) -> set[Path]:
    """What lies in this interpreter's site-packages of these, and of all that they require."""
    wanted, files, seen = [Requirement(line) for line in requirements], set(), set()
    while wanted:
        requirement = wanted.pop()
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        found = distribution(requirement.name)
        tops = {path.parts[0] for path in found.files or ()} - {"..", "__pycache__"}
        files |= {Path(str(found.locate_file(top))) for top in tops}
        wanted += [Requirement(line) for line in found.requires or ()]
    return files


def metadata_of(wheel: Path) -> str:
    """What an index and pip read of it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        return archive.read(name).decode("utf-8").partition("\n\n")[0]
