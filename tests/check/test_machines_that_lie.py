"""Machines whose files hold what no machine writes: numbers of any length, names with NULs, tables of another form."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.errors import UsageError
from unhang.findings import NotChecked
from unhang.host.machine import Machine, StoredMachine
from unhang.program.launch.planned_job import PlannedJob

HUGE, LONG = "9" * 400, "9" * 5000
COMMAND = ("torchrun", "--nnodes", "2", "--nproc-per-node", LONG, "train.py", "--deepspeed", "ds.json")


def failed(machine: Machine, *command: str) -> list[NotChecked]:
    """Questions on which unhang itself failed."""
    found, gaps = inspect_node(machine, PlannedJob(command), ALL_INSPECTIONS)
    told = judge([found], [check.name for check in ALL_INSPECTIONS], gaps).not_checked
    return [gap for gap in told if gap.failed]


@pytest.mark.parametrize("number", [HUGE, LONG, "1e999"])
def test_a_number_of_any_length_is_no_number(tmp_path: Path, number: str) -> None:
    files = {
        "proc/meminfo": f"MemTotal: {number} kB\nMemAvailable: 1 kB\n",
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": number,
        "sys/fs/cgroup/job/memory.current": number,
        "sys/fs/cgroup/job/cpu.max": f"{number} 1",
        "proc/cpuinfo": "processor : 0\n",
        "proc/sys/kernel/yama/ptrace_scope": number,
        "proc/sys/net/ipv4/ip_local_port_range": f"{number} {number}",
        "sys/class/net/eth0/ifindex": number,
        "sys/class/net/eth1/ifindex": "2",
        "sys/class/net/eth1/mtu": number,
        "proc/self/limits": f"Max locked memory {number} {number} bytes\nMax open files {number} {number} files\n",
        "ds.json": f'{{"train_batch_size": {HUGE}, "gradient_accumulation_steps": 1e999}}',
        "train.py": "import torch\n",
    }
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "machine.toml").write_text(
        f'[environment]\nWORLD_SIZE = "{number}"\nSLURM_NNODES = "{number}"\n'
        f'NCCL_TIMEOUT = "{number}"\nTORCH_FR_BUFFER_SIZE = "{number}"\nNCCL_IB_GID_INDEX = "{number}"\n'
    )

    assert failed(StoredMachine(tmp_path), *COMMAND) == []


def test_a_name_with_a_nul_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_bytes(b"0::/job\0x\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\n")
    machine = Machine(tmp_path, {})

    assert machine.read("/a\0b").found is machine.entries("/a\0b").found is machine.space("/a\0b").found is None
    assert machine.command(("a\0b",)).found is None


@pytest.mark.parametrize(
    "text",
    ["command = 7", "[[command]]\ncode = 1", "[space]\na = 1", "node = [1]", "environment = 1", "a = " + "[" * 999],
)
def test_a_stored_machine_of_another_form_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine.toml").write_text(text)

    with pytest.raises(UsageError, match="not a stored machine"):
        StoredMachine(tmp_path)


def test_an_output_that_is_not_there_or_no_text_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"GPU \xa0 0")
    rows = '[[command]]\nwords = "a"\noutput = "a.txt"\n[[command]]\nwords = "b"\noutput = "none.txt"\n'
    (tmp_path / "machine.toml").write_text(rows)
    machine = StoredMachine(tmp_path)

    assert machine.command(("a",)).found is not None
    assert machine.command(("b",)).found is None
