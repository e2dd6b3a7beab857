"""Imports a program can do without: they are no gap, unless everything that would stand in for them is absent too."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import Plan

WITHOUT_IT = {
    "of the standard library, or as it was before": (
        "try:\n    import tomllib\nexcept ModuleNotFoundError:\n    import tomli as tomllib\n"
    ),
    "one of two": "try:\n    import gone\nexcept ImportError:\n    from here import loads\n",
    "the other of two": "try:\n    import here\nexcept ImportError:\n    import gone\n",
    "one of three": (
        "try:\n    import gone\nexcept ImportError:\n    try:\n        import gone_too\n"
        "    except ImportError:\n        import here\n"
    ),
    "one for each Python": (
        "import sys\nif sys.version_info >= (3, 11):\n    import tomllib\nelse:\n    import tomli as tomllib\n"
    ),
    "only for an old Python": "import sys\nif sys.version_info < (3, 9):\n    import gone\n",
    "only on another system": "import sys\nif sys.platform == 'win32':\n    import gone\n",
    "only where it is there": (
        "import importlib.util\nif importlib.util.find_spec('gone') is not None:\n    import gone as g\n"
    ),
    "nothing instead": "try:\n    import gone\nexcept ImportError:\n    gone = None\n",
    "set aside": "import contextlib\nwith contextlib.suppress(ImportError):\n    import gone\n",
}
NOT_WITHOUT_IT = {
    "nothing instead of it": ("import gone\n", ("gone",)),
    "raised again": (
        "try:\n    import gone\nexcept ImportError as e:\n    raise SystemExit('install it') from e\n",
        ("gone",),
    ),
    "neither of two": ("try:\n    import gone\nexcept ImportError:\n    import gone_too\n", ("gone or gone_too",)),
    "for neither Python": (
        "import sys\nif sys.version_info >= (3, 11):\n    import gone\nelse:\n    import gone_too\n",
        ("gone or gone_too",),
    ),
    "another error": ("try:\n    import gone\nexcept KeyError:\n    import here\n", ("gone",)),
    "a test of something else": (
        "import os\nif os.environ.get('X'):\n    import gone\nelse:\n    import here\n",
        ("gone",),
    ),
}


def absent(folder: Path, text: str) -> tuple[str, ...]:
    (folder / "t.py").write_text(text)
    (folder / "here.py").write_text("def loads(): pass\n")
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder)
    ((_, look),) = collect_program.look(machine, Plan(("python", "t.py")))
    assert look.found is not None
    return tuple(look.found.absent)


@pytest.mark.parametrize("text", WITHOUT_IT.values(), ids=WITHOUT_IT)
def test_what_a_program_goes_on_without_is_no_gap(text: str, tmp_path: Path) -> None:
    assert absent(tmp_path, text) == ()


@pytest.mark.parametrize(("text", "names"), NOT_WITHOUT_IT.values(), ids=NOT_WITHOUT_IT)
def test_what_a_program_needs_is_one(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    assert absent(tmp_path, text) == names
