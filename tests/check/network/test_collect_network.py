"""This machine's own network: its interfaces, its ports, and the place where the ranks are to meet."""

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.check.network.network_facts import (
    TWO_NODES,
    findings,
    subjects,
)
from unhang.check.judge import judge
from unhang.check.network.collect_network import _from_files, collect, interfaces_of
from unhang.check.network.network import RendezvousEndpoint
from unhang.check.network.rendezvous_endpoint import resolve_host
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import COMMAND_LIMIT_S, CommandOutput, Machine, StoredMachine
from unhang.program.launch.planned_job import PlannedJob


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no ip")
def test_the_kernels_files_tell_what_ip_tells() -> None:
    told = interfaces_of(Machine()).found
    assert told is not None

    read = {one.name: one for one in _from_files(Machine(), set())}

    for one in told.all:
        assert (read[one.name].index, read[one.name].running, read[one.name].mtu) == (one.index, one.running, one.mtu)
        assert {a.text for a in read[one.name].addresses if a.family == 6} == {
            a.text for a in one.addresses if a.family == 6
        }
        assert [a for a in read[one.name].addresses if a.family == 4] == [a for a in one.addresses if a.family == 4][:1]


def test_a_port_that_is_taken_stops_the_job_and_a_free_one_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        taken = point(("torchrun", "--master-port", str(port), "train.py"))
    free = point(("torchrun", "--master-port", str(port), "train.py"))

    assert taken.answer == "taken"
    assert free.answer == "free"
    assert subjects(findings({RendezvousEndpoint: InspectionResult(taken)})) == [f"127.0.0.1:{port}"]


def point(command: tuple[str, ...], **environment: str) -> RendezvousEndpoint:
    results = dict(collect(Machine(environment={"PATH": os.environ["PATH"], **environment}), PlannedJob(command)))
    found = results[RendezvousEndpoint].found
    assert isinstance(found, RendezvousEndpoint)
    return found


def test_a_resolver_that_does_not_answer_is_no_name_that_does_not_resolve(tmp_path: Path) -> None:
    getent = tmp_path / "getent"
    getent.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    getent.chmod(0o700)
    machine = Machine(environment={"PATH": str(tmp_path)})

    found = resolve_host(machine, "node-b", limit_s=0.3)

    assert found.found is None
    assert "did not answer" in str(found.because)


@pytest.mark.parametrize(
    ("options", "environment", "where"),
    [
        ("", {}, ("127.0.0.1", 29500)),
        ("", {"MASTER_ADDR": "10.0.0.1"}, ("127.0.0.1", 29500)),
        ("", {"PET_MASTER_ADDR": "127.0.0.2", "PET_MASTER_PORT": "29501"}, ("127.0.0.2", 29501)),
        ("--rdzv-backend c10d --rdzv-endpoint 127.0.0.3", {}, ("127.0.0.3", 29400)),
        ("--rdzv-endpoint [::1]:29401", {}, ("::1", 29401)),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:0", {}, None),
        ("--standalone", {}, None),
    ],
)
def test_where_torchrun_lets_the_ranks_meet(
    options: str, environment: dict[str, str], where: tuple[str, int] | None
) -> None:
    machine = Machine(environment={"PATH": os.environ["PATH"], **environment})
    meeting = dict(collect(machine, PlannedJob(("torchrun", *options.split(), "train.py"))))[RendezvousEndpoint].found

    assert (None if meeting is None else (meeting.address, meeting.port)) == where


def test_a_name_nobody_knows_stops_the_job() -> None:
    meeting = point((*TWO_NODES, "--rdzv-endpoint", "no-such-node.invalid:29400", "train.py"))

    assert (meeting.address, meeting.port, meeting.addresses) == ("no-such-node.invalid", 29400, ())
    assert [
        "does not resolve" in str(one.summary) for one in findings({RendezvousEndpoint: InspectionResult(meeting)})
    ] == [True]


def test_localhost_is_no_place_for_two_nodes_to_meet() -> None:
    meeting = point(("python", "train.py"), MASTER_ADDR="localhost", MASTER_PORT="0")

    assert [
        "each node connects to itself" in str(one.summary)
        for one in findings({RendezvousEndpoint: InspectionResult(meeting)})
    ] == [True]


class Torn(StoredMachine):
    """A stored machine whose every answer is cut off or spoiled somewhere."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self._chance = random.Random(seed)

    def _spoiled(self, text: str) -> str:
        at = self._chance.randrange(len(text) + 1)
        return self._chance.choice((text[:at], text[:at] + "\x00\u20ac:9z" + text[at + 1 :], text, ""))

    def read(self, path: str) -> InspectionResult[str]:
        result = super().read(path)
        return result if result.found is None else InspectionResult(self._spoiled(result.found))

    def command(self, words: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> InspectionResult[CommandOutput]:
        result = super().command(words, limit_s)
        return (
            result
            if result.found is None
            else InspectionResult(CommandOutput(self._spoiled(result.found.text), result.found.code))
        )


@pytest.mark.parametrize("machine", ["roce_copied_gid", "efa_without_plugin"])
def test_torn_answers_break_nothing(machine: str) -> None:
    folder = Path(__file__).parents[2] / "machines" / machine
    for seed in range(60):
        results = dict(collect(Torn(folder, seed), PlannedJob((*TWO_NODES, "--master-addr", "gpu-0", "train.py"))))
        judge([NodeInspection("a", results=results), NodeInspection("b", results=results)], ["network"])


@pytest.mark.parametrize("name", ["$(scontrol show hostnames | head -n 1)", "<HEAD_NODE>", "${HEAD}"])
def test_what_only_running_tells_is_not_looked_up(name: str) -> None:
    found = resolve_host(Machine(), name)

    assert found.found is None
    assert "known only at run time" in str(found.because)
