"""Shell scripts, followed to the program they start. The expected words are those that bash gives to it."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.program.launch.following import follow
from tests.program.marks import marks_of
from unhang.check import all_inspections
from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.host.machine import Machine
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.launch.shell import syntax
from unhang.sentences import say

SCRIPTS = Path(__file__).with_name("scripts")
AS_BASH = sorted((SCRIPTS / "as_bash").glob("*.sh"))
"""Scripts whose words bash itself can tell: `torchrun` there prints its arguments."""


def texts(*files: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in files}


@pytest.mark.parametrize("file", AS_BASH, ids=lambda file: file.stem)
def test_words_are_those_of_bash(file: Path, tmp_path: Path) -> None:
    script, name = file.read_text(), file.stem
    arguments = ("--n", "4", "-v", "v w") if name == "options" else ("p", "q r")
    bash = shutil.which("bash")
    assert bash, "the tests need bash"
    (tmp_path / "run.sh").write_text(f'torchrun() {{ printf "%s\\n" "$@" >&3; }}\nexec() {{ "$@"; }}\n{script}')
    said = subprocess.run(
        ["bash", "-c", 'exec 3>words; source ./run.sh "$@"', str(tmp_path / "run.sh"), *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
        timeout=20,
        capture_output=True,
    )
    words = (tmp_path / "words").read_text().splitlines()
    assert words, said.stderr

    way = follow(tmp_path, {"run.sh": script}, "bash", "run.sh", *arguments)

    told = way.command.replace("/job", str(tmp_path)).split(" ")
    assert told == ["torchrun", *" ".join(words).split(" ")]
    assert way.notes == []


def test_exports_reach_the_program_and_other_variables_do_not(tmp_path: Path) -> None:
    way = follow(tmp_path, texts(SCRIPTS / "told" / "exports.sh"), "./exports.sh", GONE="1", KEPT="1")

    assert way.environment == {"NCCL_DEBUG": "INFO", "LATE": "2", "NCCL_IB_DISABLE": "1"}
    assert (way.told.environment["NCCL_DEBUG"].origin, way.told.environment["NCCL_DEBUG"].line) == ("exports.sh", 1)
    assert way.told.environment["NCCL_IB_DISABLE"].line == 6
    assert dict(way.machine.environment) == {**way.environment, "KEPT": "1"}


def test_the_users_own_variables_count_first(tmp_path: Path) -> None:
    script = "NGPU=${NGPU:-8}\ntorchrun --nproc_per_node=$NGPU t.py\n"

    assert follow(tmp_path, {"run.sh": script}, "NGPU=2", "./run.sh").launch.processes == 2
    assert follow(tmp_path, {"run.sh": script}, "./run.sh", NGPU="3").launch.processes == 3
    assert follow(tmp_path, {"run.sh": script}, "./run.sh").launch.processes == 8


def test_another_folder(tmp_path: Path) -> None:
    script = 'cd "$(dirname "$0")/.." && cd src\ntorchrun t.py\n'
    way = follow(tmp_path, {"scripts/run.sh": script, "src/t.py": ""}, "scripts/run.sh")

    assert (way.told.folder, way.machine.folder) == ("src", "/job/src")


@pytest.mark.parametrize("line", ["cd job", "cd ./job/", "pushd job", "cd job || exit 1"])
def test_a_folder_that_is_not_there_is_not_entered_and_the_right_one_to_start_from_is_named(
    line: str, tmp_path: Path
) -> None:
    way = follow(tmp_path, {"run.sh": f"#!/bin/bash\n{line}\ntorchrun t.py", "t.py": ""}, "bash", "run.sh")

    assert way.told.folder == "", "as bash stays where it is"
    assert way.machine.folder == "/job"
    assert way.launch.program == "t.py"
    (note,) = [note for note in way.notes if "run.sh:2" in note and "job" in note]
    assert "start the command from /, where it does" in note


def test_a_folder_that_is_nowhere_is_named(tmp_path: Path) -> None:
    way = follow(tmp_path, {"run.sh": "cd /workspace/gone\ntorchrun t.py", "t.py": ""}, "bash", "run.sh")

    assert [note for note in way.notes if "/workspace/gone does not exist" in note]
    assert not [note for note in way.notes if "start the command from" in note]


def test_a_folder_that_the_script_makes_or_that_is_empty_is_entered(tmp_path: Path) -> None:
    (tmp_path / "job/empty").mkdir(parents=True)
    script = "cd empty\ncd ..\nmkdir -p out\ncd out\ntorchrun ../t.py"

    way = follow(tmp_path, {"run.sh": script, "t.py": ""}, "bash", "run.sh")

    assert way.told.folder == "out"
    assert not [note for note in way.notes if "does not exist" in note]


def test_sourced_files_and_other_scripts(tmp_path: Path) -> None:
    way = follow(tmp_path, texts(*(SCRIPTS / "told" / "sources").glob("*.sh")), "bash", "run.sh")

    assert way.command.startswith("torchrun --nproc_per_node 4 t.py --m 5 --n [$N]")
    assert way.environment == {"NCCL_SOCKET_IFNAME": "eth0", "SECRET": "1"}
    assert way.told.environment["NCCL_SOCKET_IFNAME"].origin == "env.sh"
    assert way.told.trail == ("run.sh", "start.sh")
    assert way.notes == ["start.sh:1 --n $N: N is not set here"]


def test_files_that_the_script_writes(tmp_path: Path) -> None:
    way = follow(tmp_path, texts(SCRIPTS / "told" / "writes_files.sh"), "bash", "writes_files.sh")

    assert way.command == "torchrun --nproc_per_node 2 t.py $N more"


@pytest.mark.parametrize("file", sorted((SCRIPTS / "noted").glob("*.sh")), ids=lambda file: file.stem)
def test_what_only_running_tells_is_named_with_its_place(file: Path, tmp_path: Path) -> None:
    way = follow(tmp_path, texts(file), "bash", file.name)

    assert way.launch.program in ("t.py", "a.py", "bash")
    noted = [note for note in way.notes if note.startswith(f"{file.name}:")]
    assert noted == [f"{file.name}:{line} {words}" for line, words in marks_of(file.read_text())] != []


def test_both_branches_of_a_condition_that_is_not_known(tmp_path: Path) -> None:
    way = follow(tmp_path, texts(SCRIPTS / "told" / "both_branches.sh"), "bash", "both_branches.sh")

    assert way.launch.processes == 1
    assert way.launch.arguments["a"] == "1"
    assert any("it depends on the condition on line 2" in note for note in way.notes)


def test_a_script_that_ends_itself_says_where(tmp_path: Path) -> None:
    files = texts(SCRIPTS / "told" / "ends_itself.sh")

    way = follow(tmp_path, files, "bash", "ends_itself.sh")

    assert "ends_itself.sh:3 started this way, the script exits here" in way.notes
    assert follow(tmp_path, files, "bash", "ends_itself.sh", DATA="d").launch.program == "t.py"


@pytest.mark.parametrize(
    "script",
    [
        "x=ab\nfor i in {1..60}; do x=$x$x; done\ntorchrun t.py $x",
        'x=(a b)\nfor i in {1..60}; do x+=("${x[@]}"); done\ntorchrun t.py ${x[@]}',
        'set -- a b\nfor i in {1..60}; do set -- "$@" "$@"; done\ntorchrun t.py',
        "x=$(seq 1 1000)\ntorchrun t.py ${x##*a*a*a*a*b}",
        "for a in {1..60}; do for b in {1..60}; do for c in {1..60}; do x=$a; done; done; done\ntorchrun t.py",
        "while true; do x=$x.; done\ntorchrun t.py",
        "f() { f; }\nf\ntorchrun t.py",
        "bash run.sh\ntorchrun t.py",
        "( ( (",
        "",
        "\x00",
        "if then fi )) ]] <<",
    ],
)
def test_scripts_without_end_or_sense(script: str, tmp_path: Path) -> None:
    assert follow(tmp_path, {"run.sh": script + "\n"}, "bash", "run.sh").told is not None


@pytest.mark.parametrize("text", [" " * 70_000, "<<A\n" * 16_000, ">" * 20_000, "a|" * 60_000, "x" * (1 << 18)])
def test_texts_on_which_the_parser_takes_long_have_a_limit(text: str, tmp_path: Path) -> None:
    way = follow(tmp_path, {"run.sh": f"# {text}\n{text}\ntorchrun t.py\n"}, "bash", "run.sh")

    assert way.launch.program == "t.py" or any("run.sh" in note for note in way.notes)


def test_no_code_is_run(tmp_path: Path) -> None:
    hit = f"touch {tmp_path}/hit"
    script = f"{hit}\n$({hit})\n`{hit}`\neval {hit}\ntorchrun t.py\n"

    follow(tmp_path, {"run.sh": script}, "bash", "run.sh")

    assert not (tmp_path / "hit").exists()


def test_a_machine_without_the_parser_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = say("reading shell scripts needs tree-sitter-bash, which is not installed with unhang")

    def missing() -> None:
        raise ImportError("tree_sitter_bash")

    monkeypatch.setattr(syntax, "_language", missing)

    assert f"run.sh:None {reason}" in follow(tmp_path, {"run.sh": "torchrun t.py\n"}, "bash", "run.sh").notes


def test_a_missing_script_is_told(tmp_path: Path) -> None:
    assert "none.sh does not exist" in follow(tmp_path, {}, "bash", "none.sh").notes


def test_a_mistake_of_ours_costs_the_way_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(machine: Machine, plan: PlannedJob) -> tuple[Machine, PlannedJob]:
        raise KeyError("ours")

    monkeypatch.setattr(all_inspections, "follow_command", fail)
    here, gaps = inspect_node(Machine(tmp_path, {}), PlannedJob(("torchrun", "t.py")), [ALL_INSPECTIONS[0]])

    assert here.found(JobEnvironment) is not None
    assert [(gap.check, gap.failed) for gap in gaps] == [("configuration", True)]


def test_a_folder_that_hangs_costs_the_way_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(machine: Machine, plan: PlannedJob) -> tuple[Machine, PlannedJob]:
        over.wait(60)
        return machine, plan

    monkeypatch.setattr(all_inspections, "follow_command", hang)
    monkeypatch.setattr(all_inspections, "FOLLOW_LIMIT_S", 0.3)
    here, gaps = inspect_node(Machine(tmp_path, {}), PlannedJob(("bash", "run.sh")), [ALL_INSPECTIONS[0]])
    over.set()

    assert here.found(JobEnvironment) is not None
    assert "no answer within" in str(gaps[0].because)
