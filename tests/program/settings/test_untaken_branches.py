"""Where the values that decide a branch come from, and arguments that no parser knows; the branches: ``programs/``."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProgramSource

PROGRAMS = Path(__file__).with_name("programs")


def read(folder: Path, command: str) -> ProgramSource:
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder)
    (_, result), _ = collect_program.collect(machine, PlannedJob(("torchrun", *command.split())))
    assert result.found is not None
    return result.found


def test_the_command_overrides_configuration_files() -> None:
    source = read(PROGRAMS / "files", "by_dataclass.py ratio.yaml --val_split 0")

    assert source.left_out[0].settings == (("val_split", "0.0", "command"),)


def test_where_a_value_comes_from_is_told() -> None:
    left = read(PROGRAMS / "options", "by_argparse.py").left_out[0]

    assert (left.path, left.line, left.truth) == ("by_argparse.py", 20, False)
    assert left.settings == (("val_split", "0.0", "by_argparse.py:12"),)


def test_an_argument_that_no_parser_knows(tmp_path: Path) -> None:
    more = "p.add_argument('--profiling.enable', action='store_true')\n"
    (tmp_path / "t.py").write_text((PROGRAMS / "options" / "by_argparse.py").read_text() + more)

    assert read(tmp_path, "t.py --flag --metrics.enable").not_understood == ("--metrics.enable (--profiling.enable?)",)
    assert read(tmp_path, "t.py --flag --profiling.enable").not_understood == ()


@pytest.mark.parametrize(
    "more",
    [
        "p.add_argument(*names_of(field), default=1)\n",
        "import deepspeed\np = deepspeed.add_config_arguments(p)\n",
    ],
)
def test_options_that_no_line_spells_out_may_be_any(more: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text((PROGRAMS / "options" / "by_argparse.py").read_text() + more)

    assert read(tmp_path, "t.py --flag --deepspeed").not_understood == ()


def test_a_second_parser_that_passes_over_the_rest_adds_nothing(tmp_path: Path) -> None:
    more = "again = argparse.ArgumentParser()\nfor name in vars(args):\n    again.add_argument('--' + name)\n"
    more += "again.parse_known_args()\n"
    (tmp_path / "t.py").write_text((PROGRAMS / "options" / "by_argparse.py").read_text() + more)

    assert read(tmp_path, "t.py --flag --deepspeed").not_understood == ("--deepspeed",)


def test_a_parser_that_the_program_fills_itself_is_known(tmp_path: Path) -> None:
    more = "def add(p):\n    p.add_argument('--more')\nadd(p)\n"
    (tmp_path / "t.py").write_text((PROGRAMS / "options" / "by_argparse.py").read_text() + more)

    assert read(tmp_path, "t.py --flag --deepspeed").not_understood == ("--deepspeed",)
