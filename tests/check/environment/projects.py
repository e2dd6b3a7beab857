"""A project in a folder, a virtual environment that holds nothing but metadata, and what ``check`` says of both."""

from __future__ import annotations

from pathlib import Path

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.environment.environment import Versions
from unhang.check.judge import judge
from unhang.findings import Verdict
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

VERSIONS = [check for check in ALL_INSPECTIONS if check.name == "versions"]


class Alone(Machine):
    """No file outside of ``own`` can be read: what pip of this machine is set to does not count."""

    own = ""

    def read(self, path: str) -> InspectionResult[str]:
        return super().read(path) if path.startswith(self.own) else InspectionResult()


def project(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"train.py": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def environment(folder: Path, name: str = "venv", **packages: str) -> Path:
    """A virtual environment with metadata of ``packages`` in it, and nothing that could be run."""
    site = folder / name / "lib/python3.11/site-packages"
    for package, version in packages.items():
        told = site / f"{package}-{version}.dist-info/METADATA"
        told.parent.mkdir(parents=True)
        told.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (site / package).mkdir()
        (site / package / "__init__.py").write_text("")
    site.mkdir(parents=True, exist_ok=True)
    (folder / name / "bin").mkdir()
    (folder / name / "bin/python").write_text("")
    return folder / name


def ask(
    folder: Path, command: str = "python train.py", venv: Path | None = None, **variables: str
) -> tuple[Versions, Verdict]:
    """In an environment where nothing is installed, unless ``venv`` holds something."""
    told = {"VIRTUAL_ENV": str(venv or environment(folder)), "PATH": "/none", **variables}
    machine = Alone(environment=told)
    machine.folder = machine.own = str(folder)
    situation, gaps = inspect_node(machine, PlannedJob(tuple(command.split())), VERSIONS)
    found = situation.found(Versions)
    assert found is not None
    return found, judge([situation], ["versions"], gaps)
