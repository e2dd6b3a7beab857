"""What `unhang check` proposes does not make things worse on the machine at hand, also when it is pasted as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from platform import node

import pytest

from tests.check.told_machine import MACHINES, Told, card, situation
from tests.command import unhang
from unhang.check.devices.devices import AccessControl, CardTopology, Iommu
from unhang.check.judge import judge
from unhang.check.network.rendezvous_endpoint import find_rendezvous_endpoint
from unhang.findings import RemedyKind, Verdict
from unhang.history.database import open_history
from unhang.history.place import HistoryPlace
from unhang.history.run import NeededSetting
from unhang.host.machine import CommandOutput
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.program.launch.launch import Configuration, Launch

RECIPE = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_BLOCKING_WAIT": "1",
    "NCCL_ASYNC_ERROR_HANDLING": "1",
    "NCCL_IB_DISABLE": "1",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "1024",
    "NCCL_P2P_LEVEL": "NVL",
    "NCCL_TIMEOUT": "3600",
}
FAMILIES = ("NCCL", "TORCH")


def checked(torch: str, environment: dict[str, str]) -> str:
    words = ["check", "--only", "environment", "--assume", f"torch={torch}"]
    return unhang(*words, environment=environment).stdout


@pytest.mark.parametrize("torch", ["2.2.0", "2.4.1", "2.6.0", "2.8.0", "2.13.0"])
def test_the_block_pasted_leaves_the_recorder_on_and_nothing_to_change(torch: str) -> None:
    block = re.search(r"^Paste this instead\n(.*?)(?:\n\n|\Z)", checked(torch, RECIPE), re.MULTILINE | re.DOTALL)
    assert block is not None
    script = block[1] + "\nenv | grep -E '^(NCCL|TORCH)_' || true"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FAMILIES)}

    pasted = subprocess.run(
        ["bash", "-c", script], env={**clean, **RECIPE}, capture_output=True, text=True, check=True, timeout=20
    )
    after = dict(line.split("=", 1) for line in pasted.stdout.splitlines())
    answer = checked(torch, after)

    assert pasted.stderr == ""
    assert not set(after) & (set(RECIPE) - {"TORCH_NCCL_TRACE_BUFFER_SIZE"})
    assert "the flight recorder is on" in " ".join(answer.split()), answer
    assert "Paste this instead" not in answer


def with_p2p_off(way: str, *facts: object) -> Verdict:
    settings = JobEnvironment({"NCCL_P2P_DISABLE": VariableSetting("NCCL_P2P_DISABLE", "1")})
    ways = CardTopology({(0, 1): way, (1, 0): way})
    return judge([situation([card(0), card(1)], facts=(settings, ways, *facts))], ["environment", "topology"])


@pytest.mark.parametrize("detour", [AccessControl(("0000:16:00.0",)), Iommu("translated", "/proc/cmdline")])
def test_what_keeps_cards_off_a_detour_stays_until_the_detour_is_gone(detour: object) -> None:
    bent, straight = with_p2p_off("PXB", detour), with_p2p_off("PXB", AccessControl(()))

    assert bent.suggested is None
    assert any("NCCL_P2P_DISABLE=1 keeps" in str(found.summary) for found in bent.findings)
    assert straight.suggested is not None
    assert straight.suggested.unset == ("NCCL_P2P_DISABLE",)
    with_nvlink = with_p2p_off("NV12", detour).suggested
    assert with_nvlink is not None
    assert with_nvlink.unset == ("NCCL_P2P_DISABLE",)


def test_cards_the_user_named_are_not_exchanged_in_what_is_pasted() -> None:
    words = ["check", "--machine", MACHINES / "l20_two_numa", "--only", "devices,topology", "--"]
    run = ["torchrun", "--nproc-per-node=4", "train.py"]

    lent = unhang(*words, "env", "CUDA_VISIBLE_DEVICES=6,7,8,9", *run).stdout
    crowded = unhang(*words, "env", "CUDA_VISIBLE_DEVICES=0,1,2,3", *run).stdout
    anyhow = unhang(*words, *run).stdout

    assert "Cards 6-9 span 2 NUMA nodes" in lent
    for named in (lent, crowded):
        assert "Paste this instead" not in named
        assert "if they are yours to use" in " ".join(named.split())
    assert "Paste this instead\nexport CUDA_VISIBLE_DEVICES=4,5,6,7" in anyhow


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.7"])
def test_an_address_needs_no_resolver(tmp_path: Path, address: str) -> None:
    launch = Launch(launcher="torchrun", options={"master_addr": address})

    result = find_rendezvous_endpoint(Told(tmp_path, {}), launch, Configuration(), {"RANK": "0"}, None)

    assert result.found is not None
    assert result.found.addresses == (address,)


def test_an_address_that_a_shell_makes_is_not_looked_up(tmp_path: Path) -> None:
    launch = Launch(launcher="torchrun", options={"master_addr": "$(hostname -s | head -n 1)"})

    assert find_rendezvous_endpoint(Told(tmp_path, {}), launch, Configuration(), {}, None).found is None


def test_a_name_that_could_not_be_looked_up_is_not_one_that_does_not_resolve(tmp_path: Path) -> None:
    launch = Launch(launcher="torchrun", options={"master_addr": "node0"})
    unknown = {"getent ahosts node0": CommandOutput("", 2)}

    neither = find_rendezvous_endpoint(Told(tmp_path, {}), launch, Configuration(), {"RANK": "0"}, None)
    asked = find_rendezvous_endpoint(Told(tmp_path, unknown), launch, Configuration(), {"RANK": "0"}, None)

    assert neither.found is None
    assert "getent" in str(neither.because)
    assert asked.found is not None
    assert asked.found.addresses == ()


@pytest.mark.parametrize("machine", sorted(path.name for path in MACHINES.iterdir() if path.is_dir()))
def test_no_stored_machine_fails_to_resolve_what_was_never_stored(machine: str) -> None:
    folder = MACHINES / machine
    answer = unhang("check", "--machine", folder, "--", "torchrun", "--nproc-per-node", "2", "train.py").stdout

    assert "127.0.0.1 does not resolve" not in answer


def test_only_what_may_be_pasted_is_of_the_environment() -> None:
    """A remedy with a condition is read by a person; the block is pasted."""
    findings = with_p2p_off("PXB", AccessControl(("0000:16:00.0",))).findings
    kept = next(found for found in findings if found.subject == "NCCL_P2P_DISABLE")

    assert all(remedy.kind is not RemedyKind.ENVIRONMENT for remedy in kept.remedies)


@pytest.mark.parametrize(
    ("line", "taken_out"),
    [
        ('limit = int(os.environ["NCCL_TIMEOUT"])', False),
        ('limit = int(os.getenv("NCCL_TIMEOUT", "600"))', False),
        ('limit = os.environ.get("NCCL_TIMEOUT")', False),
        ('limit = 5 if "NCCL_TIMEOUT" in os.environ else 6', False),
        ('os.environ["NCCL_TIMEOUT"] = "3600"', True),
        ('print("NCCL_TIMEOUT is not set")', True),
    ],
)
def test_a_variable_that_only_the_program_reads_is_not_taken_out(tmp_path: Path, line: str, taken_out: bool) -> None:
    (tmp_path / "limits.py").write_text(f"import os\n{line}\n")
    (tmp_path / "train.py").write_text("import limits\n")
    words = ["check", "--only", "environment,program", "--", "torchrun", "train.py"]

    answer = unhang(*words, folder=tmp_path, environment={"NCCL_TIMEOUT": "3600"}).stdout

    assert ("unset NCCL_TIMEOUT" in answer) == taken_out, answer
    assert ("this program does " in " ".join(answer.split())) == (not taken_out)
    assert "did not check whether" not in answer


def test_a_block_that_turns_a_transport_on_says_when_not_to() -> None:
    unless = "# unless `unhang bisect` shows that this machine needs NCCL_IB_DISABLE, NCCL_P2P_DISABLE\nunset "
    chinese = unhang("check", "--only", "environment", "--lang", "zh", environment=RECIPE).stdout
    as_json = unhang("check", "--only", "environment", "--format", "json", environment=RECIPE).stdout

    assert f"Paste this instead\n{unless}" in checked("2.8.0", RECIPE)
    assert "改用这一段\n# 除非 `unhang bisect` 表明这台机器需要 NCCL_IB_DISABLE" in chinese
    assert json.loads(as_json)["suggested"]["unless"].startswith("unless `unhang bisect` shows")
    assert "# unless" not in checked("2.8.0", {"NCCL_TIMEOUT": "3600", "NCCL_P2P_LEVEL": "NVL"})


def needed_on(host: str, state: Path) -> dict[str, str]:
    with open_history(HistoryPlace(state / "unhang"), to_write=True) as history:
        history.keep_needed([NeededSetting(host, "NCCL_P2P_DISABLE=1", "bisect 2026-11-20")])
    return {"XDG_STATE_HOME": str(state), "NCCL_P2P_DISABLE": "1"}


def test_what_this_machine_was_seen_to_need_is_not_advised_against(tmp_path: Path) -> None:
    here, elsewhere = (needed_on(host, tmp_path / name) for name, host in (("here", node()), ("there", "h9")))

    fine = " ".join(checked("2.8.0", here).split())

    assert "NCCL_P2P_DISABLE=1 is needed on this machine: bisect 2026-11-20" in fine
    assert "Unset NCCL_P2P_DISABLE" not in fine
    assert "Unset NCCL_P2P_DISABLE" in checked("2.8.0", elsewhere)


def test_a_history_that_cannot_be_read_changes_no_answer(tmp_path: Path) -> None:
    environment = needed_on(node(), tmp_path)
    (tmp_path / "unhang" / "history.sqlite3").write_text("no database")

    assert "Unset NCCL_P2P_DISABLE" in checked("2.8.0", environment)
