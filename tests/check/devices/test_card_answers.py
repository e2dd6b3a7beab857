"""What nvidia-smi and lspci print is read in every form there is, torn and hostile ones too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.check.told_machine import MACHINES, Told, ask
from unhang.check.devices.collect_topology import parse_nvlinks, parse_peer_access, parse_topology, redirecting_bridges
from unhang.check.devices.devices import Card, CardProcess
from unhang.check.devices.nvidia_smi import FIELDS, fabric_states, query_cards
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import CommandOutput, StoredMachine


def test_a_query_that_nvidia_smi_refuses_is_a_gap_in_its_words() -> None:
    refused = CommandOutput('Field "mig.mode.current" is not a valid field to query.\n', 2)

    result, trouble = query_cards(Told(Path("/"), {"nvidia-smi --query-gpu": refused}))

    assert trouble is None
    assert result.found is None
    assert str(result.because) == 'nvidia-smi says: Field "mig.mode.current" is not a valid field to query.'


def test_a_name_with_a_comma_and_cells_that_are_not_supported() -> None:
    cells = ["0", "GPU-1", "Odd card", "00000000:01:00.0", "560.35.03", *["[N/A]"] * 3, "[Not Supported]"]
    row = ", ".join([*cells, *["[N/A]"] * (len(FIELDS) - len(cells))])
    answers = {
        "nvidia-smi --query-gpu": CommandOutput(row + "\n", 0),
        "nvidia-smi --query-compute-apps": CommandOutput("GPU-1, 12, [N/A], python, a.py\nGPU-1, [N/A], 3, x\n", 0),
    }

    result, _ = query_cards(Told(Path("/"), answers))

    assert result.found is not None
    assert result.found.cards == (Card(0, "Odd card", "GPU-1", "0000:01:00.0", compute_mode="[N/A]"),)
    assert result.found.processes == (CardProcess("GPU-1", 12, "python, a.py"),)


def test_after_a_hang_nvidia_smi_is_not_asked_again(tmp_path: Path) -> None:
    class Hangs(Told):
        def command(self, words: Sequence[str], limit_s: float = 8.0) -> InspectionResult[CommandOutput]:
            self.asked.append(" ".join(words[:2]))
            return StoredMachine(MACHINES / "smi_hangs").command(words)

    machine = Hangs(tmp_path, {})
    verdict = ask(machine)

    assert len([line for line in machine.asked if line.startswith("nvidia-smi")]) <= 2  # once a check
    assert {gap.check for gap in verdict.not_checked} >= {"devices", "topology"}


def test_the_matrix_of_a_paste_that_lost_its_tabs() -> None:
    paste = (
        "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      NV4     SYS     0-15    0               N/A\n"
        "GPU1    NV4      X      NODE    16-31   1               N/A\n"
        "NIC0    SYS     NODE     X \n\nLegend:\n"
    )

    found = parse_topology(paste)

    assert found is not None
    assert dict(found.ways) == {(0, 1): "NV4", (1, 0): "NV4"}


def test_only_bridges_above_cards_count() -> None:
    bridge = "0000:{0}:01.0 PCI bridge: X\n\tBus: primary={0}, secondary={1}, subordinate={2}, sec-latency=0\n{3}"
    acs = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
    text = bridge.format("15", "16", "19", acs) + bridge.format("80", "81", "81", acs)

    assert redirecting_bridges(text, ["0000:18:00.0"]) == (("0000:15:01.0",), True)
    assert redirecting_bridges(text, ["0001:18:00.0"]) == ((), True)
    assert redirecting_bridges(text.replace("ReqRedir+", "ReqRedir-"), ["0000:18:00.0"]) == ((), True)


PARSERS = (
    fabric_states,
    parse_topology,
    parse_peer_access,
    parse_nvlinks,
    lambda text: redirecting_bridges(text, ["0000:18:00.0"]),
)


def stored_texts() -> list[str]:
    folders = (MACHINES / name for name in ("h100_ill", "card_lost", "a100_mig", "rtx4090_pair"))
    return [path.read_text("utf-8") for folder in folders for path in folder.glob("*.[ct][sx][vt]")]


@settings(max_examples=60)
@given(st.data())
def test_torn_answers_are_read_as_far_as_they_go(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(stored_texts()))
    cut = data.draw(st.integers(0, len(text)))
    filling = data.draw(st.text(max_size=20))

    for parser in PARSERS:
        parser(text[:cut] + filling + text[cut + 7 :])


@pytest.mark.parametrize(
    "text", ["", "\0", " " * 300_000, "GPU" + "9" * 9000, "GPU0\t" * 50_000, "ACSCtl:" * 40_000, "a:b:" * 60_000]
)
def test_answers_that_are_none(text: str) -> None:
    for parser in PARSERS:
        parser(f"{text}\nGPU 00000000:18:00.0\n{text}\n0000:00:01.0 PCI bridge: x\n{text}\n|   0  {text}")
