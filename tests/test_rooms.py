"""Rooms import one way, torch stays at the edge, and no file is a drawer."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import leavings

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "unhang"
LINT = f"from importlinter.cli import lint_imports; exit(lint_imports({str(ROOT / 'pyproject.toml')!r}, no_cache=True))"
TORCH_ROOMS = ("check/probe/", "guards/", "integrations/")
DRAWERS = {"utils", "util", "common", "core", "helpers", "helper", "components", "tools", "manager", "misc", "base"}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Absolute module names that ``path`` imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; say the whole name"
            yield node.module or ""


def test_what_may_import_what() -> None:
    """The contracts of pyproject.toml: order of rooms, circles, packages beside, detectors."""
    run = subprocess.run(
        [sys.executable, "-c", LINT],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_torch_is_imported_only_at_the_edge() -> None:
    importing = {
        str(path.relative_to(SOURCE))
        for path in files()
        for name in imports(path)
        if name.split(".")[0] == "torch" and not path.relative_to(SOURCE).as_posix().startswith(TORCH_ROOMS)
    }

    assert importing == set()


def test_no_file_is_a_drawer() -> None:
    assert [path for path in files() if path.stem in DRAWERS or path.parent.name in DRAWERS] == []


def modules_after(code: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('LOADED', *sorted(sys.modules))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "LOADED" in run.stdout, run.stderr
    return set(run.stdout.rsplit("LOADED", 1)[1].split())


def test_importing_unhang_loads_nothing_else() -> None:
    loaded = modules_after("import unhang")

    assert {name for name in loaded if name.startswith("unhang")} == {"unhang"}
    assert not loaded & {"torch", "numpy", "rich", "typer", "msgspec", "jinja2"}


@pytest.mark.parametrize("words", [["--version"], ["diagnose", "--help"]])
def test_starting_the_command_line_stays_light(words: list[str]) -> None:
    loaded = modules_after(f"from unhang.cli.main import main\ntry:\n    main({words!r})\nexcept SystemExit:\n    pass")

    assert not loaded & {"torch", "numpy", "msgspec", "jinja2", "unhang.facts.build"}


def test_diagnosing_never_loads_torch(tmp_path: Path) -> None:
    leavings.write_bundle(tmp_path / "run")

    loaded = modules_after(
        "from unhang.cli.main import main\n"
        f"try:\n    main(['diagnose', {str(tmp_path / 'run')!r}, '--html', {str(tmp_path / 'r.html')!r}])\n"
        "except SystemExit:\n    pass"
    )

    assert "unhang.diagnosis.diagnose" in loaded
    assert "torch" not in loaded


def test_the_page_says_what_every_folder_holds() -> None:
    asked = [sys.executable, str(ROOT / "scripts" / "rooms.py"), "--check"]

    assert subprocess.run(asked, check=False).returncode == 0, "python scripts/rooms.py writes docs/architecture.md"
