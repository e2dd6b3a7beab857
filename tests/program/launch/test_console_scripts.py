"""Commands of libraries, and what they start in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program.launch.following import follow

PROGRAMS = Path(__file__).with_name("programs")
CLI = (PROGRAMS / "starts_torchrun.py").read_text()
LISTED = (PROGRAMS / "starts_a_list.py").read_text()
PYPROJECT = '[project.scripts]\ntrain-it = "pkg.cli:main"\n'
POETRY = '[tool.poetry.scripts]\ntrain-it = "pkg.cli:main"\n'
SETUP_CFG = "[options.entry_points]\nconsole_scripts =\n    train-it = pkg.cli:main\n"
SETUP_PY = (PROGRAMS / "setup.py").read_text()


@pytest.mark.parametrize(
    "files",
    [{"pyproject.toml": PYPROJECT}, {"pyproject.toml": POETRY}, {"setup.cfg": SETUP_CFG}, {"setup.py": SETUP_PY}],
    ids=["project", "poetry", "setup.cfg", "setup.py"],
)
def test_a_script_of_the_project_leads_to_its_function(files: dict[str, str], tmp_path: Path) -> None:
    way = follow(tmp_path, {**files, "src/pkg/cli.py": "def main(): ...\n"}, "train-it", "--lr", "1")

    assert way.command == "python -m pkg.cli --lr 1"
    assert way.told.trail == ("train-it",)


def test_a_script_that_starts_torchrun_itself(tmp_path: Path) -> None:
    files = {"pyproject.toml": PYPROJECT, "src/pkg/cli.py": CLI, "src/pkg/worker.py": ""}

    way = follow(tmp_path, files, "train-it", "train", "x.yaml", "a=1", NPROC="4")

    assert (way.launch.launcher, way.launch.processes, way.launch.nodes) == ("torchrun", 4, 1)
    assert way.launch.program == "src/pkg/worker.py"
    assert (way.launch.words, way.launch.arguments) == (("x.yaml",), {"a": "1"})
    assert way.notes == ["src/pkg/cli.py:12 --master_port pick_port(): the program computes it when it starts"]
    assert follow(tmp_path, files, "train-it", "train", "x.yaml").launch.options["nproc_per_node"] == "gpu"


def test_a_command_made_of_a_list(tmp_path: Path) -> None:
    way = follow(tmp_path, {"pyproject.toml": PYPROJECT, "pkg/cli.py": LISTED}, "train-it", "--a", "1")

    assert way.command == "python -m torch.distributed.run --nproc_per_node 2 + 2 extra() -m pkg.train --a 1"
    assert any("extra()" in note for note in way.notes)


def test_an_installed_script(tmp_path: Path) -> None:
    files = {
        "/venv/bin/tool": "#!/venv/bin/python3\nimport sys\nfrom pkg.cli import main\nsys.exit(main())\n",
        "/venv/lib/python3.11/site-packages/pkg/cli.py": CLI,
        "/venv/lib/python3.11/site-packages/pkg/worker.py": "",
        "/bin/other": "\x7fELF",
    }

    way = follow(tmp_path, files, "tool", "train", "x.yaml", PATH="/bin:/venv/bin")

    assert way.launch.program == "/venv/lib/python3.11/site-packages/pkg/worker.py"
    assert follow(tmp_path, files, "other", PATH="/bin").command == "other"


@pytest.mark.parametrize(
    ("line", "launcher", "program", "processes"),
    [
        ("swift sft --model m", "python", "-m swift.cli.sft", None),
        ("NPROC_PER_NODE=4 swift rlhf --a b", "torchrun", "swift.cli.rlhf", 4),
        ("axolotl train c.yaml", "accelerate", "axolotl.cli.train", None),
        ("llamafactory-cli train c.yaml", "llamafactory", "llamafactory-cli", None),
        ("tune run --nproc_per_node 2 full_finetune_distributed --config c", "tune", "full_finetune_distributed", 2),
        ("composer -n 8 t.py", "composer", "t.py", 8),
        ("colossalai run --nproc_per_node 4 --hostfile h t.py", "colossalai", "t.py", 4),
        ("fabric run --devices=4 t.py", "fabric", "t.py", 4),
        ("accelerate launch --config_file c --num_processes 8 -m a.b --x", "accelerate", "a.b", 8),
        ("torchrun --nproc-per-node=2 -m coverage run --branch t.py", "torchrun", "t.py", 2),
        ("python -u -m torch.distributed.run --nproc_per_node 2 t.py", "torchrun", "t.py", 2),
        ("python -m cProfile -o out t.py", "python", "t.py", None),
    ],
)
def test_launchers_and_commands_of_libraries(
    line: str, launcher: str, program: str, processes: int | None, tmp_path: Path
) -> None:
    launch = follow(tmp_path, {}, *line.split()).launch

    assert (launch.launcher, launch.program, launch.processes) == (launcher, program, processes)


@pytest.mark.parametrize(
    "source",
    [
        "def (",
        "subprocess.run()",
        "import subprocess\nx = x\nsubprocess.run(x)",
        "subprocess.run('torchrun {a'.format())",
    ],
)
def test_sources_that_tell_nothing(source: str, tmp_path: Path) -> None:
    files = {"pyproject.toml": PYPROJECT, "pkg/cli.py": source}

    assert follow(tmp_path, files, "train-it").launch.program in ("-m pkg.cli", "{a")
