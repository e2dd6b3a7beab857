"""Where a launch ends itself: programs that do, and their twins that go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import CertainStop

PARSER = """
import argparse, os, sys
def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--kind", default="plain")
    parser.add_argument("--names", nargs="*", default=["a"])
    return parser.parse_args()
"""
ENDS = {
    "a raise below a test that holds": "if args.size > 4:\n        raise Bad",
    "an exit with a code": "if args.size > 4:\n        sys.exit(1)",
    "an assertion that does not hold": "assert args.size < 4",
    "in a function that is called": "check(args)\ndef check(args):\n    if args.size > 4:\n        raise Bad",
    "a variable of the environment": "if os.environ.get('MODE') != '1' and args.kind == 'plain':\n        raise Bad",
    "a variable that nobody sets": "if os.environ.get('NOWHERE', '0') == '0' and args.size:\n        raise Bad",
    "what is assigned on a way never taken": (
        "if args.kind == 'other':\n        args.size = 1\n    if args.size > 4:\n        raise Bad"
    ),
    "a name that its table lacks": "TABLE = {'rich': 1}\n    value = TABLE[args.kind]",
    "one of several names": "TABLE = {'b': 1}\n    value = [TABLE[name] for name in args.names]",
    "in a round of a loop": "for name in args.names:\n        if name == 'a':\n            raise Bad",
}
GOES_ON = {
    "a test that does not hold": "if args.size > 9:\n        raise Bad",
    "what is not known": "if args.size > other():\n        raise Bad",
    "an exit without a fault": "if args.size > 4:\n        sys.exit(0)",
    "an exit before it": "if other():\n        sys.exit(0)\n    if args.size > 4:\n        raise Bad",
    "an end before it": "print(args)\n    exit()\n    if args.size > 4:\n        raise Bad",
    "a loop without an end before it": "while True:\n        work()\n    if args.size > 4:\n        raise Bad",
    "what is caught": "try:\n        if args.size > 4:\n            raise Bad\n    except Bad:\n        pass",
    "what is returned from before": "if other():\n        return\n    if args.size > 4:\n        raise Bad",
    "a function that may be called": "other(check)\ndef check(args):\n    if args.size > 4:\n        raise Bad",
    "what is assigned elsewhere": "args.size = other()\n    if args.size > 4:\n        raise Bad",
    "a table that is added to": "TABLE = {'rich': 1}\n    TABLE[other()] = 2\n    value = TABLE[args.kind]",
    "no setting at all": "raise NotImplementedError",
    "a variable that it sets": "os.environ['MODE'] = '1'\n    if os.environ.get('MODE') != '1':\n        raise Bad",
    "a variable that ranks have each": "if os.environ.get('LOCAL_RANK') != '0' and args.size:\n        raise Bad",
    "a short circuit": "value = args.size < 4 or other() or {}['x']",
}


def stops(body: str, folder: Path) -> tuple[CertainStop, ...]:
    body, _, after = body.partition("\ndef ")
    main = f"def main():\n    args = options()\n    {body}\n"
    script = f"{PARSER}def {after}\n{main}" if after else PARSER + main
    (folder / "t.py").write_text(f"{script}\nif __name__ == '__main__':\n    main()\n")
    machine = Machine(environment={"PATH": "/none", "MODE": "32", "LOCAL_RANK": "3"})
    machine.folder = str(folder)
    (_, result), _ = collect_program.collect(machine, PlannedJob(("torchrun", "--nproc-per-node", "2", "t.py")))
    assert result.found is not None
    return result.found.stops


@pytest.mark.parametrize("name", ENDS)
def test_a_launch_that_is_sure_to_end_itself(name: str, tmp_path: Path) -> None:
    (found,) = stops(ENDS[name], tmp_path)

    assert found.path == "t.py"
    assert found.settings


@pytest.mark.parametrize("name", GOES_ON)
def test_a_launch_that_may_go_on(name: str, tmp_path: Path) -> None:
    assert stops(GOES_ON[name], tmp_path) == ()


def test_what_led_there_is_told(tmp_path: Path) -> None:
    (by_environment,) = stops(ENDS["a variable of the environment"], tmp_path)
    (by_table,) = stops(ENDS["a name that its table lacks"], tmp_path)

    assert by_environment.settings == (("MODE", "'32'", "environment"), ("kind", "'plain'", "t.py:6"))
    assert by_table.text == "value = TABLE[args.kind]"
    assert by_table.known == ("rich",)


def test_code_that_an_argument_names_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(f"{PARSER}\nif __name__ == '__main__':\n    assert options().size < 4\n")
    (tmp_path / "t.py").write_text("import argparse\nargparse.ArgumentParser().add_argument('--dataset')\n")
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(tmp_path)
    command = ("torchrun", "--nproc-per-node", "2", "t.py", "--dataset", "data.py:make")
    (_, result), _ = collect_program.collect(machine, PlannedJob(command))

    assert result.found is not None
    assert "data.py" in result.found.entered
    assert result.found.stops == ()
