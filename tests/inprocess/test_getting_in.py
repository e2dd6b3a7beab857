"""The start-up hook gives way to the user's own, and does next to nothing until a rank begins."""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.inprocess.programs import RANK_0, STARTUP, Folders, base_environment, run_python, with_and_without
from tests.test_rooms import SOURCE, imports

WHAT_PYTHON_IS_LIKE = """
import sys, os, threading, signal
own = sys.modules.get("sitecustomize")
print(own and own.__file__, own and own.__name__, own and own.__spec__.name, own and own.__dict__.get("X"))
print(sys.path, sys.argv, sys.flags, sys.excepthook is sys.__excepthook__, threading.active_count())
print([signal.getsignal(number) for number in signal.valid_signals()])
print(sorted(name for name in sys.modules if name.split(".")[0] != "unhang"
             and name not in ("_json", "atexit", "faulthandler", "__future__")))
try:
    import sitecustomize
except ImportError as error:
    print(error, error.name)
import usercustomize
"""
SITECUSTOMIZE = {
    "none": None,
    "sets a name": "X = 3\nprint(__name__, __file__, __spec__.name, __package__)",
    "raises": "raise RuntimeError('mine')",
    "misses a module": "import not_there",
    "is no Python": "def (",
    "exits": "import sys\nprint('bye', flush=True)\nsys.exit(7)",
    "installs a finder": "import sys\nclass Finder:\n    find_spec = staticmethod(lambda *a: None)\n"
    "sys.meta_path.insert(0, Finder)",
    "looks for the next one, as some tracers do": "import importlib.machinery, os, sys\n"
    "here = os.path.dirname(__file__)\n"
    "found = importlib.machinery.PathFinder.find_spec('sitecustomize', [p for p in sys.path if p != here])\n"
    "print('next', found)",
}


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "usercustomize.py").write_text("print('usercustomize')")
    return folder


@pytest.mark.parametrize("text", SITECUSTOMIZE.values(), ids=SITECUSTOMIZE)
@pytest.mark.parametrize("later", [False, True], ids=["first on the path", "later on the path"])
def test_the_users_sitecustomize_runs_as_without_us(
    text: str | None, later: bool, users_folder: Path, folders: Folders, tmp_path: Path
) -> None:
    if text is not None:
        (users_folder / "sitecustomize.py").write_text(text)
    path = f"{tmp_path}/empty:{users_folder}" if later else str(users_folder)

    without, with_us = with_and_without(["-c", WHAT_PYTHON_IS_LIKE], folders, PYTHONPATH=path, **RANK_0)

    if text and "exit" in text:  # the traceback through site shows two lines of ours
        assert (without.code, without.out) == (with_us.code, with_us.out)
    else:
        assert without.same == with_us.same
    assert len(folders.registrations()) == 1


def test_the_users_sitecustomize_in_a_virtual_environment_runs(folders: Folders, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "v" / "lib").glob("python*/site-packages")
    (site / "sitecustomize.py").write_text("X = 5")

    without, with_us = with_and_without(
        ["-c", "import sitecustomize, sys; print(sitecustomize.X, sys.prefix)"],
        folders,
        python=str(tmp_path / "v" / "bin" / "python"),
        **RANK_0,
    )

    assert without.same == with_us.same
    if (Path(sysconfig.get_path("stdlib")) / "sitecustomize.py").exists():
        pytest.skip("this Python brings a sitecustomize of its own, which goes before the one of an environment")
    assert without.out.startswith("5 ")
    assert len(folders.registrations()) == 1


def test_ours_twice_on_the_path_still_ends(folders: Folders) -> None:
    environment = folders.environment(folders.environment(base_environment(**RANK_0)))

    ran = run_python(["-c", "print('hello')"], environment)

    assert ran.out == "hello\n"
    assert len(folders.registrations()) == 1


def test_our_dependencies_are_not_put_on_the_users_path(folders: Folders) -> None:
    environment = folders.environment(base_environment(**RANK_0))

    ran = run_python(["-S", "-c", "import sys; print(sys.path)"], environment)
    with_site = run_python(["-c", "import sys; print(sys.path)"], environment)

    assert str(STARTUP) in ran.out  # without site nobody runs us, and nobody takes us off
    assert str(STARTUP) not in with_site.out


def test_an_isolated_python_never_appears(folders: Folders, tmp_path: Path) -> None:
    """Where unhang is not installed beside it (``test_torn_install``); the tests' own Python may bring it."""
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    python = str(tmp_path / "v" / "bin" / "python")
    environment = folders.environment(base_environment(**RANK_0))

    for words in (["-I"], ["-E"], ["-S"]):
        assert run_python([*words, "-c", "pass"], environment, python=python).code == 0

    assert folders.registrations() == []


def test_a_birth_says_who_was_born(folders: Folders, tmp_path: Path) -> None:
    script = tmp_path / 'train "ü".py'
    script.write_text("import os; print(os.getpid())")
    environment = folders.environment(
        base_environment(RANK="5", LOCAL_RANK="1", WORLD_SIZE="8", TORCHELASTIC_RESTART_COUNT="2")
    )

    ran = run_python([str(script), "--lr", "3"], environment)

    (registration,) = folders.registrations()
    assert (registration.rank, registration.local_rank, registration.world_size, registration.attempt) == (5, 1, 8, 2)
    assert (registration.pid, registration.argv0, registration.entered_by) == (int(ran.out), str(script), "path")
    (path,) = (folders.records / "births").iterdir()
    assert path.name == f"2.{registration.pid}.json"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_process_without_a_rank_leaves_no_birth(folders: Folders) -> None:
    run_python(["-c", "pass"], folders.environment(base_environment()))

    assert list((folders.records / "births").iterdir()) == []


@pytest.mark.parametrize("records", ["/nowhere/at/all", "/proc/1", ""])
@pytest.mark.parametrize("code", ["print('hello')", "raise SystemExit(3)"])
def test_no_records_folder_is_no_reason_to_stop(folders: Folders, records: str, code: str) -> None:
    environment = {**folders.environment(base_environment(**RANK_0)), "UNHANG_RUN": records}

    assert run_python(["-c", code], environment) == run_python(["-c", code], base_environment(**RANK_0))


def test_numbers_that_are_none_are_no_reason_to_stop(folders: Folders) -> None:
    ran = run_python(
        ["-c", "print(1)"], folders.environment(base_environment(RANK="first", WORLD_SIZE="", LOCAL_RANK="-"))
    )

    assert (ran.out, ran.err) == ("1\n", "")
    assert folders.registrations()[0].rank == -1


def test_at_start_there_is_no_thread_no_torch_and_little_else(folders: Folders) -> None:
    code = "import sys, os; print(len(os.listdir('/proc/self/task')), *sorted(sys.modules))"

    ran = run_python(["-c", code], folders.environment(base_environment(**RANK_0)))

    threads, *modules = ran.out.split()
    assert threads == "1"
    assert not {"torch", "threading", "typing", "json", "pathlib", "dataclasses", "ctypes"} & set(modules)
    assert "unhang.inprocess.activation" not in modules


def test_a_broken_install_of_ours_is_no_reason_to_stop(folders: Folders, tmp_path: Path) -> None:
    broken = tmp_path / "unhang" / "inprocess" / "startup"
    broken.mkdir(parents=True)
    (broken / "sitecustomize.py").write_text((STARTUP / "sitecustomize.py").read_text())
    environment = {**folders.environment(base_environment(**RANK_0)), "PYTHONPATH": str(broken)}

    for text in (None, "raise RuntimeError"):
        if text:
            (tmp_path / "unhang" / "__init__.py").write_text(text)
        ran = run_python(["-c", "import sys; print(1, 'unhang' in sys.modules)"], environment)
        assert (ran.out, ran.err) == ("1 False\n", "")


def modules_of_ranks() -> set[Path]:
    """This room, the secrets, and what they import of ``wire``, directly or not."""
    found: set[Path] = set()
    waiting = [path for room in ("inprocess", "secrets") for path in (SOURCE / room).rglob("*.py")]
    while waiting:
        path = waiting.pop()
        found.add(path)
        files = {SOURCE.joinpath(*name.split(".")[1:3]).with_suffix(".py") for name in imports(path)}
        waiting += [file for file in files if file.parent.name == "wire" and file.exists() and file not in found]
    return found


def test_ranks_load_only_the_standard_library_and_what_is_made_for_them() -> None:
    strangers = {
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted(modules_of_ranks())
        for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("unhang.inprocess", "unhang.wire", "unhang.secrets"))
        and (path.name, name) != ("line_filter.py", "hyperscan")  # for long texts only, where it is installed
        and name not in ("unhang", "unhang.late_pattern")  # the latter is forty lines over ``re``
        and name.split(".")[0] not in ("_frozen_importlib", "_frozen_importlib_external")
    }

    assert strangers == set()


def test_a_bare_interpreter_loads_all_that_ranks_load() -> None:
    names = sorted(path.relative_to(SOURCE.parent).with_suffix("").as_posix() for path in modules_of_ranks())
    program = f"""
import sys
sys.path.append({str(SOURCE.parent)!r})
from importlib import import_module
for name in {[n.replace("/", ".") for n in names if "startup" not in n]!r}:
    import_module(name)
known = (*sys.stdlib_module_names, "__main__", "unhang")
print(sorted(name for name in sys.modules if name.partition(".")[0] not in known))
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_nothing_of_this_room_is_imported_under_another_name() -> None:
    """``import_module`` and ``__import__`` would escape the test above."""
    for path in sorted((SOURCE / "inprocess").rglob("*.py")):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"__import__", "import_module"}, path


def test_starting_costs_little(folders: Folders) -> None:
    """Eight modules of ours, packages included, and four small ones of Python's."""
    base = base_environment(**RANK_0)
    more = modules(folders.environment(base)) - modules(base)

    assert len([name for name in more if name.startswith("unhang")]) <= 8
    assert len([name for name in more - {"sitecustomize"} if not name.startswith("unhang")]) <= 4


def modules(environment: dict[str, str]) -> set[str]:
    """What a Python that does nothing has imported."""
    words = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    return set(subprocess.check_output(words, env=environment, text=True, timeout=60).split())
