"""Which limit is in force, which one is not, and which groups inherit none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.program.marks import LAUNCH, findings_of
from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.environment import collect_timers
from unhang.check.environment.collect_timers import slurm_seconds
from unhang.check.judge import judge
from unhang.findings import Severity, Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

TIMERS = [check for check in ALL_INSPECTIONS if check.name == "timers"]


def ask(tmp_path: Path, command: str, program: str = "", **environment: str) -> Verdict:
    if program:
        (tmp_path / "t.py").write_text(program)
    situation, gaps = inspect_node(
        Machine(environment={"HOME": "/h", **environment}), PlannedJob(tuple(command.split())), TIMERS
    )
    return judge([situation], ["timers"], gaps)


pytestmark = pytest.mark.usefixtures("in_its_folder")


def test_a_limit_of_years_is_named_with_the_file_it_stands_in(tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text("stage: sft\ntemplate: qwen\nddp_timeout: 180000000\n")

    verdict = ask(tmp_path, "llamafactory-cli train sft.yaml")

    (finding,) = verdict.findings
    assert "5.7 years" in str(finding.summary)
    assert finding.evidence[0].source.path == "sft.yaml"


def test_groups_do_not_inherit_the_limit(tmp_path: Path) -> None:
    program = (
        "from datetime import timedelta\nHOURS = 2\n"
        "dist.init_process_group('nccl', timeout=timedelta(hours=HOURS))\n"
        "a = dist.new_group([0, 1])\nb = dist.new_group([0], timeout=timedelta(hours=2))\n"
    )

    verdict = ask(tmp_path, "torchrun t.py", program)

    (finding,) = verdict.findings
    assert finding.where is not None
    assert (finding.where.file, finding.where.line) == ("t.py", 4)
    assert "timedelta(seconds=7200)" in str(finding.remedies[0].change)


def test_without_a_raised_limit_a_group_without_one_is_fine(tmp_path: Path) -> None:
    verdict = ask(tmp_path, "torchrun t.py", "dist.init_process_group('nccl')\ndist.new_group([0])\n")

    assert verdict.findings == ()
    assert "600 s" in str(verdict.checked[0].what)


def test_deepspeed_s_limit_has_no_effect_where_the_trainer_makes_the_group(tmp_path: Path) -> None:
    verdict = ask(tmp_path, "torchrun t.py --output_dir o", "", DEEPSPEED_TIMEOUT="120")

    assert [(finding.subject, finding.severity) for finding in verdict.findings] == [
        ("DEEPSPEED_TIMEOUT", Severity.NOTE)
    ]
    assert "1,800 s are in force" in str(verdict.findings[0].summary)


def test_a_scheduler_that_ends_the_job_first_is_named(tmp_path: Path) -> None:
    verdict = ask(tmp_path, "torchrun t.py", "", SLURM_JOB_END_TIME=str(int(time.time()) + 300))

    assert [finding.subject for finding in verdict.findings] == ["Slurm"]


def test_the_shorter_limit_of_later_steps_comes_first(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text("[comm]\ninit_timeout_seconds = 300\n[job]\ndump_folder='o'\n")

    verdict = ask(tmp_path, "torchrun -m torchtitan.train --job.config_file t.toml")

    assert "first timeout: 100 s (the default of comm.train_timeout_seconds)" in str(verdict.checked[0].what)


@pytest.mark.parametrize("value", ["", "soon", "-1", "nan", "inf", "1h", "1e400"])
def test_values_that_are_no_limit(value: str, tmp_path: Path) -> None:
    verdict = ask(tmp_path, f"torchrun t.py --ddp_timeout={value}")

    assert verdict.findings == ()


@pytest.mark.parametrize("source", ["", "def (", "\0", "init_process_group(timeout=timedelta(x))", "(" * 5000])
def test_programs_that_tell_nothing(source: str, tmp_path: Path) -> None:
    verdict = ask(tmp_path, "torchrun t.py", source)

    assert verdict.findings == ()
    told = [str(line.what) for line in verdict.checked]
    by_default = any("first timeout: 600 s (the default of init_process_group(timeout=))" in line for line in told)
    assert by_default is not bool(verdict.not_checked)


PROGRAMS = sorted(Path(__file__).with_name("programs").iterdir())


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_limits_are_read_wherever_the_launch_leads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    texts = [file.read_text() for file in folder.rglob("*.py")]
    (command,) = (command for text in texts for command in LAUNCH.findall(text))
    (in_force,) = (words for text in texts for _, words in findings_of(text, command))

    said = [str(line.what) for line in ask(folder, command).checked]

    assert [line for line in said if in_force in line] != [], said
    assert [line for line in said if "first timeout: " in line and in_force not in line] == []


def test_a_limit_that_only_running_tells_is_named(tmp_path: Path) -> None:
    verdict = ask(tmp_path, "torchrun t.py", "import x\ndist.init_process_group('nccl', timeout=x.limit())\n")

    assert "init_process_group(timeout=x.limit()) (t.py:2)" in str(verdict.not_checked[0].because)
    assert not [line for line in verdict.checked if "first timeout" in str(line.what)]


YEARS = "stage: sft\ntemplate: qwen\nddp_timeout: 180000000\n"


@pytest.mark.parametrize(
    ("call", "in_force"),
    [
        ("dist.init_process_group('nccl', timeout=timedelta(seconds=8))", "8 s are in force"),
        ("dist.init_process_group('nccl')", "600 s are in force"),
    ],
)
def test_a_program_that_makes_the_group_itself_overrules_the_trainer(tmp_path: Path, call: str, in_force: str) -> None:
    (tmp_path / "sft.yaml").write_text(YEARS)

    verdict = ask(tmp_path, "torchrun t.py sft.yaml", f"def main():\n    {call}\n")

    (finding,) = verdict.findings
    assert finding.subject == "ddp_timeout"
    assert "5.7 years" in str(finding.summary)
    assert in_force in str(finding.summary)
    assert finding.where is not None
    assert (finding.where.file, finding.where.line) == ("t.py", 2)
    assert [quote.source.path for quote in finding.evidence] == ["sft.yaml", "t.py"]


@pytest.mark.parametrize(
    "program",
    [
        "if not dist.is_initialized():\n    dist.init_process_group('nccl', timeout=timedelta(seconds=8))\n",
        "dist.init_process_group('nccl', timeout=LIMIT)\n",
        "Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=8))])\n",
    ],
)
def test_where_the_trainer_may_be_first_its_limit_counts(tmp_path: Path, program: str) -> None:
    (tmp_path / "sft.yaml").write_text(YEARS)

    verdict = ask(tmp_path, "torchrun t.py sft.yaml", program)

    assert ["5.7 years: a stall would never end" in str(one.summary) for one in verdict.findings] == [True]


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("0-01:30", 5400), ("x", None)],
)
def test_slurm_s_own_times(told: str, seconds: float | None) -> None:
    assert slurm_seconds(told) == seconds


@pytest.mark.parametrize(("steps", "wrong"), [(500_000, ["Slurm"]), (5_000, [])])
def test_a_scheduler_that_leaves_too_little_for_the_steps(steps: int, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(f"#SBATCH --time=2:00:00\ntorchrun {tmp_path}/t.py --total_steps {steps}\n")

    assert [finding.subject for finding in ask(tmp_path, f"sbatch {tmp_path}/job.sh").findings] == wrong


@pytest.mark.parametrize(("package", "seconds"), [("torch=2.1", 1800), ("torch=2.2", 600), ("torch=2.12.0", 600)])
def test_the_default_is_that_of_the_release(package: str, seconds: float, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("dist.init_process_group('nccl')\n")
    name, _, release = package.partition("=")
    plan = PlannedJob(("torchrun", str(tmp_path / "t.py")), assume={name: release})
    ((_, result),) = collect_timers.collect(Machine(environment={}), plan)

    assert result.found is not None
    assert result.found.of("collective")[0].seconds == seconds


@pytest.mark.parametrize(("line", "variable"), [("--time=0", ""), ("", "1")])
def test_no_limit_and_one_that_is_for_sbatch_alone(line: str, variable: str, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(f"#SBATCH {line}\ntorchrun {tmp_path}/t.py --total_steps 500000\n")
    command = f"sbatch {tmp_path}/job.sh" if line else f"torchrun {tmp_path}/t.py --total_steps 500000"

    assert not ask(tmp_path, command, "", SBATCH_TIMELIMIT=variable).findings
