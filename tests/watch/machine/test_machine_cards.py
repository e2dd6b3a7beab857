"""What nvidia-smi answers becomes samples of cards; a driver that does not answer is left alone for a while."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from unhang.host.machine import StoredMachine
from unhang.watch.machine.cards import FIELDS, CardSampler, throttle_reasons

UUIDS = ("GPU-171d4a5c-abeb-a989-6553-0e2692641aaf", "GPU-2e8a80f7-9aaa-8ab9-960f-a4d182638fe6")
CSV = "--format=csv,noheader,nounits"
NEW, OLD = (
    f"nvidia-smi --query-gpu={','.join(FIELDS)},clocks_{word}_reasons.active {CSV}" for word in ("event", "throttle")
)
TABLE = (
    f"0, {UUIDS[0]}, 00000000:18:00.0, NVIDIA H100 80GB HBM3, 100, 61034, 81559, 1980, 1980, 2619, 64, 512.30, 700.00,"
    " 0, 16, 0x0000000000000004\n"
    f"1, {UUIDS[1]}, 00000000:2A:00.0, NVIDIA H100 80GB HBM3, 100, 61034, 81559, 990, 1980, 2619, 91, 350.11, 700.00,"
    " [N/A], 16, 0x0000000000000068\n"
)
APPS = f"nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory {CSV}"
ON_CARDS = f"{UUIDS[0]}, 4000, 61000\n{UUIDS[1]}, 9001, [N/A]\n"
DMON = "# gpu  rxpci  txpci \n# Idx   MB/s   MB/s \n    0    245     31 \n    1      -      - \n"
LINKS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-171d4a5c-abeb-a989-6553-0e2692641aaf)
\t Link 0: Data Tx: 1000 KiB
\t Link 0: Data Rx: 2000 KiB
\t Link 1: Data Tx: 1000 KiB
\t Link 1: Data Rx: N/A
"""


def machine(tmp_path: Path, answers: dict[str, dict[str, Any]]) -> StoredMachine:
    """A machine on which these commands answer so."""
    rows = []
    for words, answer in answers.items():
        lines = [f"{name} = {json.dumps(value)}" for name, value in answer.items()]
        rows.append("\n".join(["[[command]]", f"words = {json.dumps(shlex.join(words.split()))}", *lines]))
    (tmp_path / "machine.toml").write_text("\n\n".join(rows) + "\n")
    return StoredMachine(tmp_path)


def test_a_sample_tells_use_clocks_heat_and_why_clocks_are_held_down(tmp_path: Path) -> None:
    answers = {NEW: TABLE, APPS: ON_CARDS, "nvidia-smi dmon -s t -c 1": DMON, "nvidia-smi nvlink -gt d": LINKS}

    found = CardSampler(machine(tmp_path, {words: {"text": text} for words, text in answers.items()})).sample()

    first, second = found["cards"]
    assert (first["index"], first["bus"], first["util"], first["sm_mhz"]) == (0, "0000:18:00.0", 100, 1980)
    assert (first["mem_used"], first["power_w"], first["throttle"]) == (61034 << 20, 512, ["sw_power_cap"])
    assert second["throttle"] == ["hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown"]
    assert (second["temp_c"], second["uncorrected"], second["sm_max_mhz"]) == (91, None, 1980)
    assert (first["pcie_rx_bps"], first["pcie_tx_bps"]) == (245_000_000, 31_000_000)
    assert "pcie_rx_bps" not in second
    assert found["on_cards"] == [
        {"uuid": UUIDS[0], "pid": 4000, "mem": 61000 << 20},
        {"uuid": UUIDS[1], "pid": 9001, "mem": 0},
    ]


def test_nvlink_counters_become_rates(tmp_path: Path) -> None:
    answers = {NEW: {"text": TABLE}, "nvidia-smi nvlink -gt d": {"text": LINKS}}
    look = CardSampler(machine(tmp_path, answers))
    look.sample()
    later = LINKS.replace("Tx: 1000", "Tx: 501000")
    look._machine = machine(tmp_path, {**answers, "nvidia-smi nvlink -gt d": {"text": later}})

    found = look.sample(whole_look=True)

    assert found["cards"][0]["nvlink_tx_bps"] > 0
    assert found["cards"][0]["nvlink_rx_bps"] == 0
    assert "nvlink_rx_bps" not in found["cards"][1]


def test_an_older_driver_is_asked_by_its_own_word(tmp_path: Path) -> None:
    refused = {"text": 'Field "clocks_event_reasons.active" is not a valid field to query.\n', "code": 2}
    look = CardSampler(machine(tmp_path, {NEW: refused, OLD: {"text": TABLE}}))

    assert [card["index"] for card in look.sample()["cards"]] == [0, 1]


@pytest.mark.parametrize(
    ("answer", "because"),
    [
        ({"refused": "nvidia-smi did not answer in 8 s"}, "did not answer"),
        ({"text": "Failed to initialize NVML: Driver/library version mismatch\n", "code": 18}, "version mismatch"),
        ({"text": "No devices were found\n", "code": 6}, "No devices"),
    ],
)
def test_a_driver_without_an_answer_is_told_once_and_left_alone(
    answer: dict[str, Any], because: str, tmp_path: Path
) -> None:
    look = CardSampler(machine(tmp_path, {NEW: answer}))

    assert because in look.sample()["cards_because"]
    assert look.sample() == {}


def test_without_the_tool_nothing_is_said(tmp_path: Path) -> None:
    assert CardSampler(machine(tmp_path, {})).sample() == {}


@pytest.mark.parametrize("text", ["", "\0\0", "0, GPU", "x" * 100_000, "0," * 5_000 + "\n"])
def test_nonsense_gives_no_cards(text: str, tmp_path: Path) -> None:
    assert CardSampler(machine(tmp_path, {NEW: {"text": text}})).sample().get("cards", []) == []


@pytest.mark.parametrize(("cell", "names"), [("0x0000000000000001", ["idle"]), ("[N/A]", []), ("", []), ("0x0", [])])
def test_reasons_are_bits(cell: str, names: list[str]) -> None:
    assert throttle_reasons(cell) == names
