"""`import unhang` is enough: every guard by its name, loaded when it is first named, with its types."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import unhang
from unhang.facts.waiting import guard_waits

NAMES = sorted(unhang._GUARDS)
PUBLIC = {
    "BackgroundWriter",
    "even_batches",
    "limits",
    "phase",
    "rank_zero_first",
    "same_on_all_ranks",
    "save_together",
    "seed_everything",
    "step",
    "together",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_guard_is_found_by_its_name(name: str) -> None:
    assert callable(getattr(unhang, name))
    assert name in dir(unhang)


def test_errors_can_be_named_before_any_guard_is() -> None:
    program = "import unhang; print(unhang.errors.RanksDiffer.__name__, 'errors' in dir(unhang))"

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert said.stdout.split() == ["RanksDiffer", "True"], said.stderr


def test_all_guards_are_there() -> None:
    assert set(NAMES) >= PUBLIC


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(unhang.__file__).read_text())
    typed = {
        alias.asname: (node.module or "").rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unhang.")
        for alias in node.names
    }

    assert typed == unhang._GUARDS, "unhang/__init__.py names a guard twice: for type checkers and in _GUARDS"


def test_a_guard_that_waits_for_others_is_called_by_its_name_in_a_verdict() -> None:
    files = (Path(unhang.__file__).parent / "guards").glob("*.py")
    waiting = {path.name for path in files if "current_exchange()" in path.read_text("utf-8")}

    assert waiting
    assert waiting - set(guard_waits._GUARDS) == set(), "facts/waiting/guard_waits.py has the names"


def test_a_name_that_is_none_of_ours() -> None:
    with pytest.raises(AttributeError, match="no attribute 'toghether'"):
        unhang.toghether  # noqa: B018


def test_guards_work_where_torch_is_not_installed() -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"  # import torch raises
        "import unhang\n"
        "from unhang.errors import MissingExtra\n"
        "unhang.together('save')\n"
        "with unhang.together('save'), unhang.rank_zero_first('x') as first, unhang.phase('save'):\n"
        "    assert first\n"
        "assert not unhang.limits(init=60).groups\n"
        "unhang.step()\n"
        "unhang.same_on_all_ranks([1, 2], 'numbers')\n"
        "assert list(unhang.even_batches([1, 2])) == [1, 2]\n"
        "try:\n"
        "    unhang.save_together({'a': 1}, 'x.pt')\n"
        "except MissingExtra as error:\n"
        "    assert 'pip install torch' in str(error)\n"
        "print('DONE')\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout == "DONE\n", done.stderr
