"""Which files a launch leads to: as Python finds them, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.program.marks import LAUNCH
from unhang.host.machine import Machine
from unhang.program import collect_program as program
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProgramSource

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Files by path below the folder of the job; ``__`` in a name is a slash, ``_py`` its ending."""
    monkeypatch.chdir(tmp_path)

    def files(texts: dict[str, str]) -> None:
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return files


def read(command: str, **environment: str) -> ProgramSource:
    machine = Machine(environment={"PATH": "/nonexistent", **environment})
    (_, result), _ = program.collect(machine, PlannedJob(tuple(command.split())))
    assert result.found is not None, str(result.because)
    return result.found


def names(source: ProgramSource) -> set[str]:
    return {file.path for file in source.files}


LAYOUTS = sorted((Path(__file__).with_name("programs") / "layouts").iterdir())
"""Programs of several files: one has its ``# launch:``, those that it leads to begin with ``# read``."""


@pytest.mark.parametrize("folder", LAYOUTS, ids=lambda folder: folder.name)
def test_imports_are_found_where_python_finds_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    texts = {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*.py")}
    ((script, command),) = ((name, command) for name, text in texts.items() for command in LAUNCH.findall(text))

    source = read(command)

    assert source.files[0].path == script
    assert names(source) - {script} == {name for name, text in texts.items() if text.startswith("# read")} != set()
    assert source.absent == ()


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import nowhere", ("nowhere",)),
        ("try:\n    import nowhere\nexcept ImportError:\n    nowhere = None", ()),
        ("try:\n    import nowhere\nexcept ImportError:\n    raise SystemExit", ("nowhere",)),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere", ()),
        ("import torch, numpy, os, unittest.mock", ()),
        ("from .beside import x", (".beside",)),
    ],
)
def test_what_is_not_found_is_named(program: str, absent: tuple[str, ...], write: Write) -> None:
    write({"t.py": program})

    assert read("torchrun t.py").absent == absent


def test_what_only_the_script_itself_would_do_is_not_done_in_a_module(write: Write) -> None:
    write(
        {
            "t.py": "import m\nif __name__ == '__main__':\n    import yes",
            "m.py": "if __name__ == '__main__':\n    import no",
        }
    )
    write({"yes.py": "", "no.py": ""})

    assert names(read("torchrun t.py")) == {"t.py", "m.py", "yes.py"}


def test_pythonpath_of_the_command_and_of_the_shell(write: Write) -> None:
    write({"s/t.py": "import a, b", "one/a.py": "", "two/b.py": ""})

    assert names(read("PYTHONPATH=one torchrun s/t.py", PYTHONPATH="elsewhere")) == {"s/t.py", "one/a.py"}
    assert names(read("torchrun s/t.py", PYTHONPATH="one:two")) == {"s/t.py", "one/a.py", "two/b.py"}


def environment(folder: Path) -> Path:
    """A virtual environment as files only: its Python is no program."""
    site = folder / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").write_text("")
    (folder / "bin/torchrun").write_text(f"#!{folder}/bin/python\nfrom torch.distributed.run import main\n")
    (folder / "pyvenv.cfg").write_text("home = /nonexistent\ninclude-system-site-packages = false\n")
    return site


@pytest.mark.parametrize("how", ["pth", "finder", "egg-link"])
def test_editable_packages_of_the_interpreter_that_would_run(how: str, write: Write, tmp_path: Path) -> None:
    write({"job/t.py": "import mine.net", "clone/src/mine/__init__.py": "", "clone/src/mine/net.py": ""})
    site = environment(tmp_path / "venv")
    mine = tmp_path / "clone/src"
    if how == "finder":
        (site / "__editable___mine_finder.py").write_text(
            f"MAPPING: dict[str, str] = {{'mine': {str(mine / 'mine')!r}}}\n"
        )
    elif how == "pth":
        (site / "__editable__.mine.pth").write_text(f"{mine}\n")
    else:
        (site / "mine.egg-link").write_text(f"{mine}\n.")

    source = read("torchrun job/t.py", PATH=str(tmp_path / "venv/bin"))

    assert names(source) == {"job/t.py", "clone/src/mine/__init__.py", "clone/src/mine/net.py"}


def test_an_installed_library_is_nobodys_own(write: Write, tmp_path: Path) -> None:
    write({"t.py": "import some_library.part"})
    site = environment(tmp_path / "venv")
    (site / "some_library").mkdir()
    (site / "some_library/__init__.py").write_text("")
    (site / "some_library/part.py").write_text("")

    source = read(f"{tmp_path}/venv/bin/python t.py")

    assert (names(source), source.absent) == ({"t.py"}, ())


def test_training_libraries_are_read_as_far_as_they_are_called(write: Write, tmp_path: Path) -> None:
    write({"t.py": "from trl import Config, load\nfrom accelerate import Accelerator\n"})
    trl = environment(tmp_path / "venv") / "trl"
    trl.mkdir()
    (trl / "__init__.py").write_text("_import_structure = {'config': ['Config'], 'data': ['load', 'other']}\n")
    (trl / "config.py").write_text("from .base import Base\nclass Config(Base):\n    pass\n")
    (trl / "base.py").write_text("class Base:\n    limit: int = 3\n")
    (trl / "data.py").write_text("from .deep import deep\ndef load():\n    return deep()\n")
    (trl / "deep.py").write_text("def deep(): ...\n")
    (trl / "never.py").write_text("")

    source = read(f"{tmp_path}/venv/bin/python t.py")

    assert {Path(file.path).name for file in source.libraries} == {"config.py", "base.py", "data.py", "deep.py"}
    assert source.libraries_absent == ("accelerate",)


@pytest.mark.parametrize(
    "arguments",
    [
        "--custom_dataset.file code/x.py",
        "--custom_dataset.file=code/x.py:get",
        "--reward_funcs code.x:score",
        "--reward_funcs code.x.Score",
        "--user_dir code",
        "--model_name_or_path code --trust_remote_code true",
        "--config c.yaml",
        "code/x.py",
    ],
)
def test_arguments_that_name_code(arguments: str, write: Write) -> None:
    write(
        {
            "t.py": "",
            "code/__init__.py": "from . import x",
            "code/x.py": "",
            "c.yaml": "data:\n  _target_: code.x.Split\n",
        }
    )

    assert "code/x.py" in names(read(f"torchrun t.py {arguments}"))


@pytest.mark.parametrize("arguments", ["--file not_there.py", "--model org/name --trust_remote_code true"])
def test_arguments_that_must_name_code_and_lead_to_none(arguments: str, write: Write) -> None:
    write({"t.py": ""})

    assert len(read(f"torchrun t.py {arguments}").not_understood) == 1


@pytest.mark.parametrize(
    "arguments", ["--version v1.5", "--host a.b.com:80", "--output_dir out/x", "--name gpt2.small"]
)
def test_arguments_that_are_no_code(arguments: str, write: Write) -> None:
    write({"t.py": ""})
    source = read(f"torchrun t.py {arguments}")

    assert (names(source), source.not_understood) == ({"t.py"}, ())


def test_an_import_that_only_running_tells_is_said(write: Write) -> None:
    write({"t.py": "import importlib\nimportlib.import_module(name)\n"})

    assert read("torchrun t.py").computed == ("t.py:2",)


def test_an_import_that_a_setting_names_is_read(write: Write) -> None:
    write(
        {
            "t.py": OPTION + "args = p.parse_args()\nimport importlib\nimportlib.import_module(args.plugin)\n",
            "mine.py": "",
        }
    )

    assert names(read("torchrun t.py --plugin mine")) == {"t.py", "mine.py"}


OPTION = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--plugin', default='')\n"


def test_limits_are_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhang.program.imports.import_graph.MAX_FILES", 3)
    write({"t.py": "import a, b, c, d", **{f"{name}.py": "" for name in "abcd"}})
    source = read("torchrun t.py")

    assert (len(source.files), source.partly) == (3, True)


def test_what_metadata_say_is_installed_is_a_library_too(write: Write, tmp_path: Path) -> None:
    write({"t.py": "import some_library, nobodys"})
    told = environment(tmp_path / "venv") / "some_library-1.0.dist-info/METADATA"
    told.parent.mkdir()
    told.write_text("Metadata-Version: 2.1\nName: some_library\nVersion: 1.0\n")
    machine = Machine(environment={"PATH": "/nonexistent"})
    machine.site = (str(told.parents[1]),)

    source = program.read_program_source(machine, (f"{tmp_path}/venv/bin/python", "t.py")).found

    assert source is not None
    assert source.absent == ("nobodys",)
