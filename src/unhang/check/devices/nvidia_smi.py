"""Ask ``nvidia-smi`` for the cards. What it says instead of an answer is kept.

Field names: ``nvidia-smi --help-query-gpu``, ``--help-query-compute-apps``, ``--help-query-remapped-rows``. A query
with one field an old driver does not know fails as a whole (``Field "…" is not a valid field to query.``), so that
fields younger than driver 450 are asked for apart. Exit codes and sentences: nvidia-smi(1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from unhang.check.devices.devices import Card, CardHealth, CardProcess, Cards, DriverFailure
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import CommandOutput, Machine
from unhang.sentences import say

MAX_CARDS = 64
"""Of one machine; a longer list is no answer of nvidia-smi's."""
CSV = "--format=csv,noheader,nounits"
FIELDS = (
    *("index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "memory.used", "utilization.gpu"),
    *("pcie.link.width.current", "pcie.link.width.max", "compute_mode", "ecc.errors.uncorrected.volatile.total"),
    "mig.mode.current",
)
PROCESS_FIELDS = ("gpu_uuid", "pid", "used_memory", "process_name")
SLOWDOWNS = ("hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
_TROUBLES = (
    ("mismatch", r"Driver/library version mismatch"),
    ("not-loaded", r"couldn't communicate with the NVIDIA driver|Driver Not Loaded|Couldn't load.*NVML library"),
    ("lost", r"GPU is lost|fallen off the bus|Unable to determine the device handle"),
    ("refused", r"Insufficient Permissions|Permission denied|NVML: Unknown Error"),
    ("no-cards", r"No devices were found"),
)


def nvidia_smi_command(*words: str) -> tuple[str, ...]:
    """``nvidia-smi`` with ``words``, as :meth:`Machine.command` takes it."""
    return ("nvidia-smi", *words)


FABRIC_QUERY = nvidia_smi_command("--query-gpu=pci.bus_id,fabric.state,fabric.status", CSV)
"""Since driver 535."""


def query_cards(machine: Machine) -> tuple[InspectionResult[Cards], DriverFailure | None]:
    """The cards; nothing there when there is no nvidia-smi."""
    query = machine.command(nvidia_smi_command(f"--query-gpu={','.join(FIELDS)}", CSV))
    if query.found is None:
        return InspectionResult(because=query.because, how=query.how), None
    trouble = _trouble(query.found)
    if trouble is not None and trouble.kind != "lost":
        return _refused(trouble), trouble
    cards = _cards_of_query(query.found.text)  # beside one that is lost the others may be listed
    if not cards.cards:
        said = query.found.text.strip().split("\n")[0][:200]
        return _refused(trouble or DriverFailure("", said)), trouble
    listed = machine.command(nvidia_smi_command(f"--query-compute-apps={','.join(PROCESS_FIELDS)}", CSV))
    processes = _processes(output_text(listed))
    return InspectionResult(replace(cards, processes=processes)), trouble


def query_health(machine: Machine) -> InspectionResult[CardHealth]:
    """Why clocks are held down, and memory that waits for a repair. Cards without such memory tell nothing of it."""
    families = ("clocks_event_reasons", "clocks_throttle_reasons")  # the second until driver 535
    queries = [f"--query-gpu=uuid,{','.join(f'{family}.{name}' for name in SLOWDOWNS)}" for family in families]
    fields = "gpu_uuid,remapped_rows.pending,remapped_rows.failure"
    lines = [nvidia_smi_command(query, CSV) for query in (*queries, f"--query-remapped-rows={fields}")]
    *reasons, rows = (output_text(result) for result in run_commands(machine, *lines))
    told = next((text for text in reasons if text), "")
    slowed: Mapping[str, tuple[str, ...]] = {row[0]: _active(row[1:]) for row in _rows(told, 1 + len(SLOWDOWNS))}
    remapping = {row[0]: _remapping(row[1], row[2]) for row in _rows(rows, 3)}
    if not told and not remapping:
        return InspectionResult(
            because=say("nvidia-smi does not support this query here"), how="nvidia-smi -q -d PERFORMANCE,ROW_REMAPPER"
        )
    return InspectionResult(CardHealth(slowed, {uuid: state for uuid, state in remapping.items() if state}))


def run_commands(machine: Machine, *lines: Sequence[str]) -> tuple[InspectionResult[CommandOutput], ...]:
    """Answers to several commands at once: nvidia-smi takes seconds where nothing keeps the driver awake."""
    with ThreadPoolExecutor(len(lines)) as pool:
        return tuple(pool.map(machine.command, lines))


def output_text(result: InspectionResult[CommandOutput]) -> str:
    """What a command that succeeded printed; else empty."""
    return result.found.text if result.found is not None and result.found.code == 0 else ""


def _trouble(output: CommandOutput) -> DriverFailure | None:
    for kind, pattern in _TROUBLES:
        found = re.search(rf"^.*(?:{pattern}).*$", output.text, re.MULTILINE)
        if found is not None:
            return DriverFailure(kind, found[0].strip()[:300])
    return None


def _refused(trouble: DriverFailure) -> InspectionResult[Cards]:
    if trouble.kind == "no-cards":
        return InspectionResult(Cards())
    return InspectionResult(because=say("nvidia-smi says: {said}", said=trouble.said), how="nvidia-smi -q")


def _rows(text: str, length: int) -> list[list[str]]:
    """Rows of at least ``length`` cells; a comma in the last cell (a process' name) stays in it."""
    rows = [[cell.strip() for cell in line.split(",", length - 1)] for line in text.splitlines()]
    return [row for row in rows if len(row) == length]


def _cards_of_query(text: str) -> Cards:
    cards: list[Card] = []
    driver = ""
    for row in _rows(text, len(FIELDS)):
        told = dict(zip(FIELDS, row, strict=True))
        index = leading_integer(told["index"])
        if index is None:
            continue
        driver = told["driver_version"]
        cards.append(
            Card(
                index,
                told["name"],
                told["uuid"],
                normal_bus(told["pci.bus_id"]),
                bytes_of_mib(told["memory.total"]),
                bytes_of_mib(told["memory.used"]),
                leading_integer(told["utilization.gpu"]),
                leading_integer(told["pcie.link.width.current"]),
                leading_integer(told["pcie.link.width.max"]),
                told["mig.mode.current"] == "Enabled",
                told["compute_mode"],
                leading_integer(told["ecc.errors.uncorrected.volatile.total"]) or 0,
            )
        )
    return Cards(tuple(cards[:MAX_CARDS]), driver=driver)


def _processes(text: str) -> tuple[CardProcess, ...]:
    found = []
    for uuid, pid, used, name in _rows(text, len(PROCESS_FIELDS)):
        number = leading_integer(pid)
        if number is not None:
            found.append(CardProcess(uuid, number, name, bytes_of_mib(used)))
    return tuple(found)


def fabric_states(text: str) -> dict[str, tuple[str, str]]:
    """State and status in the NVLink fabric by bus (answer to :data:`FABRIC_QUERY`), of cards that tell them."""
    return {normal_bus(bus): (state, status) for bus, state, status in _rows(text, 3) if "N/A" not in state}


def _active(cells: list[str]) -> tuple[str, ...]:
    return tuple(name for name, cell in zip(SLOWDOWNS, cells, strict=True) if cell == "Active")


def _remapping(pending: str, failure: str) -> str:
    """Drivers answer with ``Yes``/``No`` or ``1``/``0``."""
    yes = {"Yes", "1"}
    return "failure" if failure in yes else "pending" if pending in yes else ""


def leading_integer(cell: str) -> int | None:
    """The number a cell begins with (``16x``, ``30 C``); None for ``[N/A]`` and the like."""
    found = re.match(r"\d+", cell.strip())
    return int(found[0][:15]) if found else None


def bytes_of_mib(cell: str) -> int:
    """Bytes; 0 when no number is given."""
    return (leading_integer(cell) or 0) << 20


def normal_bus(bus: str) -> str:
    """``00000000:3B:00.0`` as ``/sys`` spells it: ``0000:3b:00.0``."""
    domain, _, rest = bus.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else bus.strip().lower()
