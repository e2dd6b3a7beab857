"""Imports that the installed release of a package cannot serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.launch_entry import find_launch_entry
from unhang.program.imports.missing_names import missing_names

PACKAGE = {
    "lib/__init__.py": "from lib.parts import *\nfrom .tools import helper\n__version__ = '2.0'\n",
    "lib/parts.py": "class Trainer: ...\n",
    "lib/tools/__init__.py": "def helper(): ...\n",
    "lib/tools/deep.py": "value = 1\n",
    "lib/made.py": "def __getattr__(name): ...\n",
    "lib/native.cpython-311-x86_64-linux-gnu.so": "",
    "lib/hidden.py": "import nowhere\nfrom nowhere import *\n",
}
LOST = {
    "import lib.gone": ("lib.gone", "gone", True),
    "from lib.tools.old import f": ("lib.tools.old", "old", True),
    "from lib import Old": ("lib", "Old", False),
    "from lib.tools import older": ("lib.tools", "older", False),
    "from helpers import x": ("lib.parts", "Gone", False),
}
THERE = (
    "from lib import Trainer, helper, __version__",
    "from lib import tools, parts",
    "import lib.tools.deep",
    "from lib.made import anything",
    "from lib.native import inside",
    "from lib.hidden import it",
    "try:\n    from lib import Old\nexcept ImportError:\n    Old = None",
    "def later():\n    from lib import Old",
    "import sys\nsys.path.insert(0, 'x')\nfrom lib import Old",
)


def lost(script: str, folder: Path) -> list[tuple[str, str, bool]]:
    venv = folder / "venv"
    site = venv / "lib/python3.11/site-packages"
    (venv / "bin").mkdir(parents=True)
    for program in ("python", "torchrun"):
        (venv / "bin" / program).write_text(f"#!{venv}/bin/python\n")
        (venv / "bin" / program).chmod(0o755)
    (venv / "pyvenv.cfg").write_text("home = /nonexistent\ninclude-system-site-packages = false\n")
    for name, text in PACKAGE.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    project = folder / "project"
    project.mkdir()
    (project / "t.py").write_text(script + "\n")
    (project / "helpers.py").write_text("from lib.parts import Gone\nx = 1\n")
    machine = Machine(environment={"PATH": f"{venv}/bin"})
    machine.folder = str(project)
    command = ("torchrun", "t.py")
    start = find_launch_entry(FolderListing(machine), "t.py", command, machine.environment)
    return [(one.module, one.name, one.is_module) for one in missing_names(start)]


@pytest.mark.parametrize("script", LOST)
def test_what_the_release_does_not_have(script: str, tmp_path: Path) -> None:
    assert lost(script, tmp_path) == [LOST[script]]


@pytest.mark.parametrize("script", THERE)
def test_what_it_has_or_may_have(script: str, tmp_path: Path) -> None:
    assert lost(script, tmp_path) == []
