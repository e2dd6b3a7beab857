"""The audit of the environment: every row of the knowledge, every parser, every place a variable can be set."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.environment.collect_environment import collect
from unhang.check.environment.environment import Versions
from unhang.check.judge import judge
from unhang.findings import Severity, Status, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.knowledge.job.environment_variables import (
    CostlySetting,
    EnvironmentVariable,
    ParseOutcome,
    VariableSupport,
    parse_value,
    variable,
    variable_support,
    variables,
)
from unhang.knowledge.tables import read_rows
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.program.launch.planned_job import PlannedJob

VERSIONS = {"2.4": "2.20.5", "2.8": "2.27.3", "2.13": "2.29.7", "2.15": "2.30.7"}


def audit(torch: str, **environment: str) -> Verdict:
    settings = JobEnvironment({name: VariableSetting(name, value) for name, value in environment.items()})
    versions = Versions({"torch": torch, "nccl": VERSIONS.get(torch, "2.18.1")})
    return judge(
        [
            NodeInspection(
                "h", results={JobEnvironment: InspectionResult(settings), Versions: InspectionResult(versions)}
            )
        ],
        ["environment"],
    )


def row(name: str) -> EnvironmentVariable:
    found = variable(name)
    assert found is not None
    return found


@pytest.mark.parametrize("torch", VERSIONS)
def test_every_row_is_judged_and_what_nothing_reads_is_named(torch: str) -> None:
    verdict = audit(torch, **{one.name: "1" for one in variables()})
    named = {finding.subject for finding in verdict.findings}
    versions = Versions({"torch": torch, "nccl": VERSIONS.get(torch, "2.18.1")})

    for one in variables():
        stands = variable_support(one, versions.owner_of(one), nccl2=torch == "2.15")
        if stands in (
            VariableSupport.NOBODY,
            VariableSupport.GONE,
            VariableSupport.NOT_YET,
            VariableSupport.OLD_NAME,
            VariableSupport.DEPRECATED,
        ):
            assert one.name in named, (one.name, stands)
        if stands is VariableSupport.NOT_KNOWN:
            assert any(one.name in str(gap.what) for gap in verdict.not_checked), one.name


@pytest.mark.parametrize("one", variables(), ids=lambda one: one.name)
def test_a_row_s_own_default_is_a_value_it_can_have(one: EnvironmentVariable) -> None:
    default = one.default.split()[0] if one.default.split() else ""

    if default.isdecimal():
        assert parse_value(one, default).outcome is not ParseOutcome.RAISES


def test_a_name_that_is_nearly_right_is_corrected() -> None:
    said = " ".join(str(finding.summary) for finding in audit("2.13", NCCL_SOCKET_IFNAMES="eth0").findings)

    assert "did you mean NCCL_SOCKET_IFNAME?" in said


@pytest.mark.parametrize(
    ("name", "value", "read", "outcome"),
    [
        ("NCCL_IB_DISABLE", "1", "1", ParseOutcome.FINE),
        ("NCCL_IB_DISABLE", "true", "0", ParseOutcome.READ_AS),
        ("NCCL_IB_TIMEOUT", "0x16", "22", ParseOutcome.FINE),
        ("NCCL_IB_TIMEOUT", "22s", "22", ParseOutcome.READ_AS),
        ("TORCH_NCCL_BLOCKING_WAIT", "TRUE", "1", ParseOutcome.FINE),
        ("TORCH_NCCL_BLOCKING_WAIT", "on", "", ParseOutcome.RAISES),
        ("NCCL_DEBUG", "ERROR", "", ParseOutcome.IGNORED),
        ("NCCL_DEBUG", "info", "INFO", ParseOutcome.FINE),
        ("NCCL_P2P_LEVEL", "NVLINK", "", ParseOutcome.IGNORED),
        ("NCCL_SOCKET_IFNAME", "^docker", "^docker", ParseOutcome.FINE),
    ],
)
def test_values_are_read_as_the_library_reads_them(name: str, value: str, read: str, outcome: ParseOutcome) -> None:
    found = parse_value(row(name), value)

    assert (found.value, found.outcome) == (read, outcome)


def test_a_switch_in_the_other_position_slows_and_one_that_raises_stops() -> None:
    severities = {
        finding.subject: finding.severity
        for finding in audit("2.13", NCCL_IB_DISABLE="true", TORCH_NCCL_BLOCKING_WAIT="on").findings
    }

    assert severities == {"NCCL_IB_DISABLE": Severity.SLOWS, "TORCH_NCCL_BLOCKING_WAIT": Severity.STOPS}


def test_what_is_needed_on_one_version_is_a_note_on_another() -> None:
    needed = audit("2.8", TORCH_NCCL_TRACE_BUFFER_SIZE="1024")
    shrinks = audit("2.13", TORCH_NCCL_TRACE_BUFFER_SIZE="1024")

    assert needed.findings == ()
    assert any("is on in torch 2.8" in str(fine.what) for fine in needed.checked)
    assert "smaller" in str(shrinks.findings[0].summary)
    assert shrinks.status is Status.HEALTHY


def test_a_recorder_that_is_off_is_turned_on_with_the_names_this_version_reads() -> None:
    wanted = {torch: dict(audit(torch).findings[0].remedies[0].set) for torch in ("2.4", "2.8")}

    assert wanted["2.4"] == {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    assert wanted["2.8"] == {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_FR_BUFFER_SIZE": "2000"}
    assert audit("2.13").findings == ()
    assert audit("2.1").findings == ()  # it has none


def test_the_old_backend_can_be_brought_back() -> None:
    rewritten = audit("2.15", TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="900")
    legacy = audit("2.15", TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="900", TORCH_DIST_USE_NCCL2="0")

    assert [gap.how for gap in rewritten.not_checked] == ["TORCH_DIST_USE_NCCL2=0"]
    assert legacy.not_checked == ()


def test_the_shell_wins_over_the_user_s_file_and_that_over_the_system_s(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("# site\nNCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0\nNCCL_SOCKET_IFNAME=bond0\n")
    (tmp_path / "home/.nccl.conf").write_text("NCCL_IB_HCA=mlx5_1\n")
    machine = Machine(tmp_path, {"HOME": "/home", "NCCL_SOCKET_IFNAME": "eth0"})

    (_, found), *_ = collect(machine, PlannedJob(("NCCL_DEBUG=WARN", "torchrun", "A=B", "train.py")))

    settings: JobEnvironment = found.found
    assert {name: settings.value(name) for name in ("NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")} == {
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_HCA": "mlx5_1",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    assert settings.value("A") is None
    assert {(loser.name, loser.origin, loser.line) for _, loser in settings.shadowed} == {
        ("NCCL_DEBUG", "/etc/nccl.conf", 2),
        ("NCCL_IB_HCA", "/etc/nccl.conf", 3),
        ("NCCL_SOCKET_IFNAME", "/etc/nccl.conf", 4),
    }


BAD = {"NCCL_P2P_DISABLE": "1", "NCCL_TIMEOUT": "3600"}


@pytest.mark.parametrize(
    ("command", "form", "words"),
    [
        ("torchrun t.py", "export", "unset NCCL_P2P_DISABLE NCCL_TIMEOUT\nexport NCCL_SOCKET_IFNAME=eth0"),
        ("srun -N 2 torchrun t.py", "srun", "srun --export=ALL,NCCL_SOCKET_IFNAME=eth0 …"),
        ("mpirun -np 2 python t.py", "mpirun", "mpirun -x NCCL_SOCKET_IFNAME=eth0 …"),
        ("deepspeed t.py", "deepspeed", "cat > ~/.deepspeed_env <<EOF\nNCCL_SOCKET_IFNAME=eth0\nEOF"),
    ],
)
def test_the_block_to_paste_keeps_what_is_right_in_the_form_of_the_launcher(
    command: str, form: str, words: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, {**BAD, "NCCL_SOCKET_IFNAME": "eth0", "HOME": "/h"})
    checks = [check for check in ALL_INSPECTIONS if check.name in ("environment", "configuration")]
    situation, _ = inspect_node(machine, PlannedJob(tuple(command.split()), {"torch": "2.13"}), checks)

    block = judge([situation], ["environment"]).suggested

    assert block is not None
    assert (block.form, dict(block.set)) == (form, {"NCCL_SOCKET_IFNAME": "eth0"})
    assert words in block.text


def test_where_nothing_is_wrong_no_block_is_suggested() -> None:
    assert audit("2.13", NCCL_SOCKET_IFNAME="eth0").suggested is None


def test_costly_rows_name_variables_that_exist_and_values_they_can_have() -> None:
    for one in read_rows("costly.toml", "costly", CostlySetting):
        for name in one.names:
            for value in one.values:
                assert parse_value(row(name), value).value.upper() == value, (name, value)
