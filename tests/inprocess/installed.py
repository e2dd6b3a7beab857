"""An environment of its own with unhang in it, as a wheel made from pyproject.toml lays it out."""

from __future__ import annotations

import shutil
import venv
from pathlib import Path

import tomli

from tests.test_rooms import SOURCE

PROJECT = SOURCE.parents[1]
WHEEL = tomli.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
PTH = "unhang.pth"


class Installed:
    """``python`` runs it; ``site`` holds it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = str(folder / "bin" / "python")
        (self.site,) = (folder / "lib").glob("python*/site-packages")
        self.package = self.site / "unhang"
        skipped = shutil.ignore_patterns("__pycache__", "lab", "rules", "facts", "evidence", "knowledge")
        shutil.copytree(SOURCE, self.package, ignore=skipped)
        project = tomli.loads((PROJECT / "pyproject.toml").read_text())
        info = self.site / "unhang-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unhang\nVersion: 0.1.0\n")
        groups = project["project"].get("entry-points", {})
        text = "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
            for group, named in groups.items()
        )
        (info / "entry_points.txt").write_text(text)
        for source, target in WHEEL["force-include"].items():
            if (PROJECT / source).is_file():
                shutil.copy(PROJECT / source, self.site / target)
