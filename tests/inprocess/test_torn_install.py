"""Half removed, half written, half upgraded: nobody's program notices, under ``unhang run`` or not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.inprocess.installed import PROJECT, PTH, WHEEL, Installed
from tests.inprocess.programs import RANK_0, STARTUP, Folders, base_environment, run_python
from tests.test_rooms import SOURCE

LOADS_AS_TORCH_DOES = """
import sys
from importlib.metadata import entry_points
for found in entry_points(group="torch.backends"):
    try:
        found.load()()
    except Exception as error:
        raise RuntimeError(f"Failed to load the backend extension: {found.name}") from error
print("imported")
"""
"""``torch._import_device_backends``, which ``import torch`` ends with."""


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path / "venv")


def _half_a_module(installed: Installed) -> None:
    for path in installed.package.rglob("*.py"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] + b"\ndef (")


def _without(*names: str) -> Callable[[Installed], None]:
    def remove(installed: Installed) -> None:
        for name in names:
            (installed.package / name).unlink()

    return remove


def _of_another_version(installed: Installed) -> None:
    (installed.package / "inprocess" / "entry.py").write_text("def started() -> None: pass\n")


def _empty(installed: Installed) -> None:
    shutil.rmtree(installed.package)
    installed.package.mkdir()


TORN: dict[str, Callable[[Installed], None]] = {
    "the package is gone, its metadata is not": lambda installed: shutil.rmtree(installed.package),
    "one room is gone": lambda installed: shutil.rmtree(installed.package / "inprocess"),
    "modules are half written": _half_a_module,
    "what tells of troubles is gone": _without("inprocess/internal_errors.py"),
    "what begins is gone": _without("inprocess/patched_functions.py", "inprocess/process_registration.py"),
    "another version's modules": _of_another_version,
    "a folder of that name, and nothing in it": _empty,
}
WATCHED = {"no run": False, "under unhang run": True}


@pytest.mark.parametrize("watched", WATCHED.values(), ids=WATCHED)
@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_a_torn_installation_stops_no_program(
    tear: Callable[[Installed], None], watched: bool, installed: Installed, folders: Folders
) -> None:
    tear(installed)
    environment = base_environment(**RANK_0)
    if watched:
        environment |= {"UNHANG_RUN": str(folders.records), "UNHANG_RUN_DIR": str(folders.run)}

    ran = run_python(["-c", LOADS_AS_TORCH_DOES], environment, python=installed.python)

    assert (ran.code, ran.out, ran.err) == (0, "imported\n", "")


def test_metadata_of_before_still_finds_what_it_names(installed: Installed) -> None:
    """An upgrade replaces the code first, the metadata last (or, in an editable installation, never)."""
    before = EntryPoint("unhang", "unhang.inprocess.entry:from_torch", "torch.backends")
    code = f"from {before.module} import {before.attr} as it\nit()\nit()\nprint('imported')"

    ran = run_python(["-c", code], base_environment(**RANK_0), python=installed.python)

    assert (ran.out, ran.err) == ("imported\n", "")


OWN_PATHS = {"PYTHONPATH of its own": ([], {"PYTHONPATH": "/somewhere/else"}), "-E": (["-E"], {}), "-I": (["-I"], {})}


@pytest.mark.parametrize(("flags", "more"), OWN_PATHS.values(), ids=OWN_PATHS)
def test_a_program_without_our_path_is_seen_where_unhang_is_installed(
    flags: list[str], more: dict[str, str], installed: Installed, folders: Folders
) -> None:
    environment = {**folders.environment(base_environment(**RANK_0)), **more}

    ran = run_python([*flags, "-c", "print(1)"], environment, python=installed.python)

    assert (ran.out, ran.err) == ("1\n", "")
    assert [registration.entered_by for registration in folders.registrations()] == ["site"]


def test_the_start_up_hook_of_the_run_goes_before_what_is_installed(installed: Installed, folders: Folders) -> None:
    """The unhang that watches and the one in the job's environment may be of different versions."""
    code = "import unhang; print(unhang.__file__)"

    ran = run_python(["-c", code], folders.environment(base_environment(**RANK_0)), python=installed.python)

    assert ran.out == f"{STARTUP.parents[1]}/__init__.py\n"
    assert [registration.entered_by for registration in folders.registrations()] == ["path"]


def test_without_a_run_nothing_of_ours_is_loaded(installed: Installed) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith('unhang')], len(sys.meta_path))"
    environment = base_environment(**RANK_0)
    with_us = run_python(["-c", code], environment, python=installed.python)
    (installed.site / PTH).unlink()

    assert with_us == run_python(["-c", code], environment, python=installed.python)


def test_removed_while_a_job_starts(folders: Folders, tmp_path: Path) -> None:
    """Between the start of a rank and its ``init_process_group`` an upgrade takes our modules away."""
    package = tmp_path / "unhang"
    shutil.copytree(SOURCE / "inprocess", package / "inprocess")
    shutil.copytree(SOURCE / "wire", package / "wire")
    shutil.copy(SOURCE / "__init__.py", package)
    torch = tmp_path / "lib" / "torch" / "distributed"
    torch.mkdir(parents=True)
    (torch.parent / "__init__.py").touch()
    (torch / "__init__.py").touch()
    (torch / "distributed_c10d.py").write_text(
        "def init_process_group(backend): return 'up'\ndef _new_process_group_helper(): return 'group'\n"
    )
    program = f"""
import shutil
from torch.distributed import distributed_c10d as c10d
assert hasattr(c10d.init_process_group, "__wrapped__")
shutil.rmtree({str(package)!r})
print(c10d._new_process_group_helper(), c10d.init_process_group("gloo"), c10d.init_process_group(backend="gloo"))
"""
    environment = folders.environment(base_environment(**RANK_0))
    environment["PYTHONPATH"] = f"{package}/inprocess/startup:{tmp_path}/lib"

    ran = run_python(["-c", program], environment)

    assert (ran.out, ran.err) == ("group up up\n", "")


def test_the_wheel_brings_the_file_that_lets_us_in() -> None:
    source = PROJECT / next(source for source, target in WHEEL["force-include"].items() if target == PTH)
    (line,) = source.read_text().splitlines()

    compile(line, PTH, "exec")
