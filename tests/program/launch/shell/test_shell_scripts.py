"""Shell scripts, followed to the program they start. The expected words are those that bash gives to it."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.program.launch.following import follow
from unhang.check import all_checks
from unhang.check.all_checks import ALL_CHECKS, look_around
from unhang.findings import say
from unhang.host.machine import Machine
from unhang.program.launch.job_environment import Settings
from unhang.program.launch.planned_job import Plan
from unhang.program.launch.shell import parser

# Scripts whose words bash itself can tell: `torchrun` there prints its arguments.
AS_BASH = {
    "defaults": "N=${N:-8}\nM=${M-4}\nexport K=${K:=2}\ntorchrun --nproc_per_node=$N --nnodes $M t.py --k ${K}",
    "arguments": 'if [ $# -ne 0 ]; then MORE="$*"; fi\ntorchrun t.py $MORE "$1" "${@:2}"',
    "continued": "A=1 \\\n  B=2 \\\ntorchrun --nproc_per_node 2 \\\n  t.py --a \\\n  b",
    "arrays": 'ARGS=(--a "b c")\nARGS+=(--d)\ntorchrun t.py "${ARGS[@]}" ${#ARGS[@]} "${ARGS[1]}"',
    "appended": 'ARGS="--a 1"\nARGS+=" --b 2"\nARGS="$ARGS --c 3"\ntorchrun t.py $ARGS "$ARGS"',
    "substituted": 'HERE=$(cd "$(dirname "$0")" && pwd)\ntorchrun t.py --here $HERE --name `basename $0 .sh`',
    "cut": "P=/a/b/c.tar.gz\ntorchrun t.py ${P##*/} ${P%.*} ${P%%.*} ${P#*/} ${P/b/x} ${P//a/y}",
    "case": "M=7b\ncase $M in\n  7b|8b) L=32;;\n  *) L=80;;\nesac\ntorchrun t.py --layers $L",
    "loop": 'for i in 1 2 3; do S="$S,$i"; done\nfor ((j=0;j<2;j++)); do S="$S,$j"; done\ntorchrun t.py ${S#,}',
    "options": 'while [[ $# -gt 0 ]]; do case "$1" in --n) N=$2; shift 2;; *) R+=("$1"); shift;; esac; done\n'
    'torchrun --nproc_per_node=$N t.py "${R[@]}"',
    "getopts": 'while getopts "n:v" o; do case $o in n) N=$OPTARG;; v) V=1;; esac; done\ntorchrun t.py $N $V',
    "function": 'start() { local n=$1; shift; torchrun --nproc_per_node=$n "$@"; }\nstart 4 t.py --x y',
    "arithmetic": "N=3\nW=$((N * 8 / 2 + N % 2))\n((W++))\ntorchrun t.py $W",
    "counted": 'D=0,1,2\ntorchrun t.py $(echo $D | tr "," "\\n" | wc -l) $(echo $D | awk -F, "{print NF}")',
    "same line": "if [[ $X == 1 ]]; then A=1 B=2\nelif [[ 2 == 2 ]]; then A=3 B=4\nfi\ntorchrun t.py $A $B",
    "evaluated": "CMD=\"torchrun --nproc_per_node 2 t.py --a 'b c'\"\neval $CMD",
    "subshell": "X=1\n(X=2; cd /)\n{ X=3; }\ntorchrun t.py $X",
    "and or": '[ -z "$NO" ] && A=1 || A=2\n[ "$A" = 2 ] || B=3\ntorchrun t.py $A $B',
    "here string": 'read -r a b <<< "x y z"\ntorchrun t.py $a "$b"',
    "quotes": 'X="a b"\ntorchrun t.py "$X" $X \'$X\' "\\$X" a\\ b $\'c\\td\'',
    "indirect": "NAME=VALUE\nVALUE=9\ntorchrun t.py ${!NAME} ${NAME,,}",
    "piped": "torchrun t.py --a 1 2>&1 | tee log &\nwait",
    "exec": "exec torchrun t.py --a 1",
    "braces": 'for i in {0..2}; do L+="$i "; done\ntorchrun t.py $L',
    "set": "set -euo pipefail\nset -- x y\ntorchrun t.py $1 ${2}",
    "stop": "torchrun t.py\nexit 0\ntorchrun other.py",
    "unset": "A=1\nunset A\ntorchrun t.py ${A:-none}",
    "alternative": "A=1\ntorchrun t.py ${A:+--given} ${NONE:+--none}",
    "pattern": 'X=a-azure-b\n[[ "$X" == *"azure"* ]] && A=1\n'
    '[[ "" == *"azure"* ]] && B=1\ntorchrun t.py ${A:-0} ${B:-0}',
    "computed default": "A=2\nB=3\nN=${N:-$((A * B))}\ntorchrun t.py $N $(expr 16 / $A)",
    "no words": 'A=()\nB=""\n$B "${A[@]}" torchrun "${A[@]}" t.py "$@" "${A[*]}" "$B"',
    "joined lists": 'A=(--a 1)\nB=(--b)\nC="torchrun t.py ${A[@]} \\\n   ${B[@]} \\\n   $B"\neval $C',
    "backslash at the end": "torchrun t.py \\\n  --a 1 \\",
    "placeholder behind": "torchrun t.py > log --a 1 2>/dev/null --b",
}


@pytest.mark.parametrize("name", AS_BASH)
def test_words_are_those_of_bash(name: str, tmp_path: Path) -> None:
    script = AS_BASH[name] + "\n"
    arguments = (
        ("--n", "4", "-v", "v w") if name == "options" else ("-n", "4", "-v") if name == "getopts" else ("p", "q r")
    )
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
    script = "export NCCL_DEBUG=INFO\nHIDDEN=1\nLATE=2\nexport LATE\nunset GONE\nNCCL_IB_DISABLE=1 torchrun t.py\n"

    way = follow(tmp_path, {"run.sh": script}, "./run.sh", GONE="1", KEPT="1")

    assert way.environment == {"NCCL_DEBUG": "INFO", "LATE": "2", "NCCL_IB_DISABLE": "1"}
    assert (way.told.environment["NCCL_DEBUG"].origin, way.told.environment["NCCL_DEBUG"].line) == ("run.sh", 1)
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
    assert "start it from /, where that folder is" in note


def test_a_folder_that_is_nowhere_is_named(tmp_path: Path) -> None:
    way = follow(tmp_path, {"run.sh": "cd /workspace/gone\ntorchrun t.py", "t.py": ""}, "bash", "run.sh")

    assert [note for note in way.notes if "/workspace/gone is not there" in note]
    assert not [note for note in way.notes if "start it from" in note]


def test_a_folder_that_the_script_makes_or_that_is_empty_is_entered(tmp_path: Path) -> None:
    (tmp_path / "job/empty").mkdir(parents=True)
    script = "cd empty\ncd ..\nmkdir -p out\ncd out\ntorchrun ../t.py"

    way = follow(tmp_path, {"run.sh": script, "t.py": ""}, "bash", "run.sh")

    assert way.told.folder == "out"
    assert not [note for note in way.notes if "is not there" in note]


def test_sourced_files_and_other_scripts(tmp_path: Path) -> None:
    files = {
        "run.sh": "source env.sh\n. ./more.sh 5\nSECRET=1 bash start.sh $N $M\n",
        "env.sh": "export NCCL_SOCKET_IFNAME=eth0\nN=4\n",
        "more.sh": "M=$1\n",
        "start.sh": "torchrun --nproc_per_node $1 t.py --m $2 --n [$N]\n",
    }

    way = follow(tmp_path, files, "bash", "run.sh")

    assert way.command.startswith("torchrun --nproc_per_node 4 t.py --m 5 --n [$N]")
    assert way.environment == {"NCCL_SOCKET_IFNAME": "eth0", "SECRET": "1"}
    assert way.told.environment["NCCL_SOCKET_IFNAME"].origin == "env.sh"
    assert way.told.trail == ("run.sh", "start.sh")
    assert way.notes == ["start.sh:1 --n $N: N is not set here"]


def test_files_that_the_script_writes(tmp_path: Path) -> None:
    script = (
        "N=2\ncat > node.sh <<EOF\ntorchrun --nproc_per_node $N t.py \\$1\nEOF\n"
        "cat <<'EOF' > plain.txt\n$N\nEOF\necho more >> plain.txt\nbash node.sh $(cat plain.txt | wc -l)\n"
    )

    assert follow(tmp_path, {"run.sh": script}, "bash", "run.sh").command == "torchrun --nproc_per_node 2 t.py 2"


@pytest.mark.parametrize(
    ("script", "note"),
    [
        (
            "N=$(nvidia-smi -L | wc -l)\ntorchrun --nproc_per_node=$N t.py",
            "run.sh:1 --nproc_per_node $(nvidia-smi -L | wc -l): only running it tells",
        ),
        ("torchrun --nproc_per_node $N t.py", "run.sh:1 --nproc_per_node $N: N is not set here"),
        ("torchrun t.py $1", "run.sh:1 $1: the script was given no such argument"),
        ("export MASTER_ADDR=$(hostname)\ntorchrun t.py", "run.sh:1 MASTER_ADDR $(hostname): only running it tells"),
        ("cd $WORK/x\ntorchrun t.py", "run.sh:1 which folder cd $WORK/x leads to is not known"),
        ("source /none.sh\ntorchrun t.py", "run.sh:1 /none.sh is sourced and could not be read"),
        ("torchrun a.py\ntorchrun b.py", "run.sh:2 it starts b.py as well, which was not looked at"),
        (
            "torchrun t.py --root <your_root> --x 1",
            "run.sh:1 <your_root> is a place to fill in, which the shell takes for redirections",
        ),
        (
            "if nvidia-smi; then torchrun t.py; fi",
            "run.sh:1 whether the program is started as told here depends on a condition that only running tells",
        ),
        (
            "if ping x; then export NCCL_DEBUG=INFO; fi\ntorchrun t.py",
            "run.sh:1 NCCL_DEBUG $NCCL_DEBUG: it depends on the condition in line 1",
        ),
        ("eval $(which x)\ntorchrun t.py", "run.sh:1 eval of a text that only running tells: $(which x)"),
        ("A=<some path>\ntorchrun t.py", "run.sh:1 this could not be read as shell, so what follows may be wrong"),
        (
            "mkdir -p out\nif [ ! -d out/x ]; then exit 1; fi\ntorchrun t.py $X",
            "run.sh:3 $X: X is not set here",
        ),
        ("$LAUNCH t.py", "run.sh:1 $LAUNCH: LAUNCH is not set here"),
        ("L=$(pick)\n$L t.py", "run.sh:2 what $(pick) is, which starts t.py"),
    ],
)
def test_what_only_running_tells_is_named_with_its_place(script: str, note: str, tmp_path: Path) -> None:
    way = follow(tmp_path, {"run.sh": script + "\n"}, "bash", "run.sh")

    assert way.launch.program in ("t.py", "a.py", "bash")
    assert note in way.notes


def test_both_branches_of_a_condition_that_is_not_known(tmp_path: Path) -> None:
    script = (
        'ARGS="--a 1"\nif grep -q x /proc/y; then ARGS="$ARGS --b"; N=1; else N=1; fi\n'
        "torchrun --nproc_per_node $N t.py $ARGS\n"
    )

    way = follow(tmp_path, {"run.sh": script}, "bash", "run.sh")

    assert way.launch.processes == 1
    assert way.launch.arguments["a"] == "1"
    assert any("it depends on the condition in line 2" in note for note in way.notes)


def test_a_script_that_ends_itself_says_where(tmp_path: Path) -> None:
    script = 'if [ -z "$DATA" ]; then\n  echo set DATA\n  exit 1\nfi\ntorchrun t.py\n'

    way = follow(tmp_path, {"run.sh": script}, "bash", "run.sh")

    assert "run.sh:3 the script ends itself here, as it is started" in way.notes
    assert follow(tmp_path, {"run.sh": script}, "bash", "run.sh", DATA="d").launch.program == "t.py"


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
    started = time.process_time()

    way = follow(tmp_path, {"run.sh": f"# {text}\n{text}\ntorchrun t.py\n"}, "bash", "run.sh")

    assert time.process_time() - started < 8 * parser.LIMIT_S
    assert way.launch.program == "t.py" or any("run.sh" in note for note in way.notes)


def test_no_code_is_run(tmp_path: Path) -> None:
    hit = f"touch {tmp_path}/hit"
    script = f"{hit}\n$({hit})\n`{hit}`\neval {hit}\ntorchrun t.py\n"

    follow(tmp_path, {"run.sh": script}, "bash", "run.sh")

    assert not (tmp_path / "hit").exists()


def test_a_machine_without_the_parser_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = say("shell scripts need tree-sitter-bash, which is not installed beside unhang")

    def missing() -> None:
        raise ImportError("tree_sitter_bash")

    monkeypatch.setattr(parser, "_parser", missing)

    assert f"run.sh:None {reason}" in follow(tmp_path, {"run.sh": "torchrun t.py\n"}, "bash", "run.sh").notes


def test_a_missing_script_is_told(tmp_path: Path) -> None:
    assert "none.sh is not there" in follow(tmp_path, {}, "bash", "none.sh").notes


def test_a_mistake_of_ours_costs_the_way_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(machine: Machine, plan: Plan) -> tuple[Machine, Plan]:
        raise KeyError("ours")

    monkeypatch.setattr(all_checks, "followed", fail)
    here, gaps = look_around(Machine(tmp_path, {}), Plan(("torchrun", "t.py")), [ALL_CHECKS[0]])

    assert here.found(Settings) is not None
    assert [(gap.check, gap.failed) for gap in gaps] == [("configuration", True)]


def test_a_folder_that_hangs_costs_the_way_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(machine: Machine, plan: Plan) -> tuple[Machine, Plan]:
        over.wait(60)
        return machine, plan

    monkeypatch.setattr(all_checks, "followed", hang)
    monkeypatch.setattr(all_checks, "FOLLOWING_S", 0.3)
    here, gaps = look_around(Machine(tmp_path, {}), Plan(("bash", "run.sh")), [ALL_CHECKS[0]])
    over.set()

    assert here.found(Settings) is not None
    assert "did not come back" in str(gaps[0].because)
