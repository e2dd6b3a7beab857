"""What is left of a file that knows several subcommands (and what is found then: ``check/risks/program/programs/``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program.launch.following import follow
from tests.program.settings.test_untaken_branches import read
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.program_source import ProgramSource
from unhang.program.settings.chosen_subcommand import live_text

TABLE = """import sys
from jobs import train as t, serve as s, tune
from other import merge
def help(): tune()
COMMANDS = {"train": t.run, "serve": [
    s.run], "merge": merge}
COMMANDS[sys.argv[1]]()
"""


def left(text: str, *argv: str) -> str:
    return live_text(text, argv, is_main=True)[0]


def test_the_others_go_with_what_only_they_need_and_lines_stay() -> None:
    text = left(TABLE, "train", "serve")

    assert text.count("\n") == TABLE.count("\n")
    assert [word for word in ("t.run", "s.run", "other", "serve as s", "tune()") if word in text] == ["t.run", "tune()"]
    assert text.splitlines()[6] == "t.run()"


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        (TABLE, ()),
        (TABLE.replace("sys.argv[1]", "'train'"), ("train",)),
        ("import fire\ndef train(): ...\nfire.Fire(train)\n", ("1",)),
        ("phases = {'train': a, 'val': b}\nfor name in phases:\n    phases[name]()\nprint(argv)\n", ("train",)),
        ("CLI(\n", ("train",)),
    ],
    ids=["no arguments", "a constant chooses", "one function", "a loop chooses", "no Python"],
)
def test_nothing_goes_where_no_argument_chooses(text: str, argv: tuple[str, ...]) -> None:
    assert live_text(text, argv, is_main=True) == (text, [])


def test_a_subcommand_that_is_not_there_is_not_understood(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import sys\nJOBS = {'a': len, 'b': max}\nJOBS[sys.argv[1]]()\n")

    assert read(tmp_path, "t.py a").not_understood == ()
    assert read(tmp_path, "t.py c").not_understood == ("c (t.py:2: not found)",)


def test_the_subcommand_that_trains_is_followed_rather_than_one_before_it(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project.scripts]\ntool = "pkg.cli:main"\n',
        "pkg/cli.py": "",
        "run.sh": "tool download x\ntool finetune_lora --a 1\ntool evaluate\n",
    }

    assert follow(tmp_path, files, "bash", "run.sh").command == "python -m pkg.cli finetune_lora --a 1"


def test_the_command_of_a_library_leads_to_its_module_where_that_is(tmp_path: Path) -> None:
    package = tmp_path / "src/llamafactory"

    assert str(asked(tmp_path).because) == "llamafactory.launcher is neither in this folder nor installed"

    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launcher.py").write_text("import sys\nif sys.argv[1] == 'api':\n    from . import api\n")
    (package / "api.py").touch()
    found = asked(tmp_path).found
    assert found is not None
    assert [one.path for one in found.files] == ["src/llamafactory/launcher.py"]


def asked(folder: Path) -> InspectionResult[ProgramSource]:
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder)
    return collect_program.read_program_source(machine, ("llamafactory-cli", "train", "x.yaml"))
