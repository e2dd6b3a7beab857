"""Rooms import one way, torch stays at the edge, and no file is a drawer."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import leavings

SOURCE = Path(__file__).resolve().parents[1] / "src" / "unhang"
ROOMS = (
    "errors",
    "findings",
    "late_pattern",
    "secrets",
    "records",
    "knowledge",
    "host",
    "evidence",
    "program",
    "facts",
    "causes",
    "diagnosis",
    "check",
    "report",
    "history",
    "inprocess",
    "watch",
    "view",
    "guards",
    "integrations",
    "cli",
)
"""In the order of the flow: a room imports itself and rooms before it."""
TORCH_ROOMS = {"watch", "guards", "integrations", "check"}
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
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "unhang")


def test_a_room_imports_only_itself_and_rooms_before_it() -> None:
    against = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in files()
        if room_of(path) != "__init__"
        for name in imports(path)
        if name.startswith("unhang.")
        and name.split(".")[1] in ROOMS
        and ROOMS.index(name.split(".")[1]) > ROOMS.index(room_of(path))
    ]

    assert against == []


def test_every_room_is_in_the_plan() -> None:
    rooms = {room_of(path) for path in files()} - {"__init__", "__main__"}

    assert rooms <= set(ROOMS)


def test_torch_is_imported_only_at_the_edge() -> None:
    importing = {
        str(path.relative_to(SOURCE))
        for path in files()
        for name in imports(path)
        if name.split(".")[0] == "torch" and room_of(path) not in TORCH_ROOMS
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
