"""What is made of a probe: hit, missed, and could not look."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from unhang.check.judge import judge
from unhang.check.probe_results.collect_probe import collect, probe_arguments
from unhang.check.probe_results.probe_results import (
    PairSpeed,
    ProbeAnswer,
    ProbeResult,
    ProbeStep,
    SuspectRound,
    answer_line,
    find_answer,
    refusal_line,
)
from unhang.check.probe_results.speeds import find_slow_collectives, find_slow_pairs, slow_pairs
from unhang.findings import Cause, Certainty, Finding, Severity, Status, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import StoredMachine
from unhang.program.launch.launch import ConfigFile, Configuration, Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import say

SIZE = 64 << 20


def verdict(probed: ProbeResult) -> Verdict:
    return judge([NodeInspection("h1", results={ProbeResult: InspectionResult(probed)})], ["probe"])


def only(probed: ProbeResult) -> Finding:
    (finding,) = verdict(probed).findings
    return finding


def machine(ranks: int = 8, *, slow: dict[tuple[int, int], float] | None = None, bus: float = 300e9) -> ProbeResult:
    """As eight cards behind an NVSwitch answer; the bandwidths are of the documented kind, not measured here."""
    everyone = (tuple(range(ranks)),)
    call_s = SIZE / bus * 2 * (ranks - 1) / ranks
    steps = (
        ProbeStep("connect", "world", everyone, finished=everyone[0]),
        ProbeStep("all-reduce", "world", everyone, SIZE, call_s, everyone[0]),
    )
    pairs = tuple(
        PairSpeed(pair, (slow or {}).get(pair, 150e9 + sum(pair) * 1e8)) for pair in combinations(range(ranks), 2)
    )
    return ProbeResult("nccl", ("h1",) * ranks, steps, 30.0, pairs=pairs, devices=("H100",) * ranks)


def test_a_healthy_machine_is_fine() -> None:
    said = verdict(machine())

    assert said.status is Status.HEALTHY
    assert "none far below the rest" in " ".join(str(item.what) for item in said.checked)


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    step = ProbeStep("all-reduce", "world", (tuple(range(4)),), 1000, 0.001)

    assert step.bus == pytest.approx(1000 / 0.001 * 2 * 3 / 4)
    assert replace(step, operation="all-gather").bus == pytest.approx(1000 / 0.001 * 3 / 4)
    assert replace(step, operation="broadcast").bus == pytest.approx(1e6)


def test_a_slow_pair_is_named() -> None:
    finding = only(machine(slow={(2, 5): 9e9}))

    assert (finding.ranks, finding.cause, finding.severity) == ((2, 5), Cause.P2P_BROKEN, Severity.SLOWS)
    assert finding.certainty is Certainty.POSSIBLE


def test_a_slow_card_is_named_and_not_its_partners() -> None:
    slow = {pair: 6e9 for pair in combinations(range(8), 2) if 3 in pair}

    finding = only(machine(slow=slow))

    assert (finding.ranks, finding.cause) == ((3,), Cause.SLOW_RANK)


def test_cards_joined_in_two_ways_are_not_broken() -> None:
    """Four cards with two NVLink bridges: two pairs are fast, four go over PCIe."""
    probed = machine(4, slow={pair: 20e9 for pair in combinations(range(4), 2) if pair not in {(0, 1), (2, 3)}})

    assert slow_pairs(probed) == ()


def test_nodes_are_compared_with_nodes() -> None:
    nodes = ("a",) * 4 + ("b",) * 4
    slow = {pair: 20e9 for pair in combinations(range(8), 2) if nodes[pair[0]] != nodes[pair[1]]}

    assert slow_pairs(replace(machine(slow=slow), nodes=nodes)) == ()
    assert find_slow_pairs([PairSpeed((0, 1), 1.0), PairSpeed((2, 3), 100.0)]).ranks == ()


@pytest.mark.parametrize(
    ("link", "bus", "wrong"),
    [(1.25e9, 1.2e6, True), (1.25e9, 3e8, False), (1.25e7, 1.1e7, False), (5e10, 5e8, False), (None, 1e6, True)],
)
def test_what_a_link_should_carry(link: float | None, bus: float, wrong: bool) -> None:
    everyone = ((0, 1),)
    step = ProbeStep("all-reduce", "world", everyone, 1 << 18, (1 << 18) / bus, (0, 1))
    probed = ProbeResult("gloo", ("h1", "h2"), (step,), 5.0, link=link, interface="eth0")

    assert (find_slow_collectives(probed) is not None) is wrong
    assert bool(verdict(probed).findings) is wrong


def test_who_never_came_is_named_and_who_waits_is_said() -> None:
    step = ProbeStep("all-gather", "world", ((0, 1, 2),), 4096, stuck=(0, 1), absent=(2,), error="timed out")

    finding = only(ProbeResult("gloo", ("h1", "h2", "h3"), (step,), 5.0))

    assert finding.ranks == (2,)
    assert "ranks 0, 1 are waiting there" in " ".join(map(str, finding.because))


def test_the_node_that_fails_in_every_company_is_to_blame() -> None:
    nodes = ("a", "a", "b", "b", "c", "c", "d", "d")
    step = ProbeStep("connect", "world", (tuple(range(8)),), stuck=tuple(range(8)))
    first = SuspectRound(((0, 1, 2, 3), (4, 5, 6, 7)), ((4, 5, 6, 7),))
    second = SuspectRound(((4, 5, 0, 1), (6, 7, 2, 3)), ((6, 7, 2, 3),))

    finding = only(ProbeResult("nccl", nodes, (step,), 30.0, rounds=(first, second)))

    assert (finding.ranks, finding.nodes) == ((6, 7), ("d",))
    assert "Run without d" in str(finding.remedies[0].title)


def test_a_wrong_result_is_a_finding() -> None:
    step = ProbeStep("all-to-all", "world", ((0, 1),), 4096, 0.001, (0, 1), wrong=(1,))
    findings = verdict(ProbeResult("nccl", ("h1", "h1"), (step,), 5.0)).findings

    assert [(finding.ranks, finding.cause) for finding in findings] == [((1,), Cause.GPU_HARDWARE)]


def test_ranks_that_did_not_come_to_the_meeting() -> None:
    finding = only(ProbeResult("gloo", ("h1", ""), (), 5.0, missing=(1,), place="h1:29500"))

    assert (finding.cause, finding.ranks, finding.subject) == (Cause.RENDEZVOUS, (1,), "h1:29500")


def test_what_the_backend_cannot_do_and_what_was_not_there_could_not_be_looked_at() -> None:
    step = ProbeStep("all-reduce", "world", ((0, 1),), 4096, 0.001, (0, 1))
    without = ProbeStep("reduce-scatter", "world", ((0, 1),), 4096, finished=(0, 1), unsupported="no such thing")
    said = verdict(ProbeResult("gloo", ("h1", "h1"), (step, without), 5.0, planned=16, left=3))

    texts = " ".join(str(item.what) for item in said.not_checked)
    assert said.findings == ()
    assert all(words in texts for words in ("reduce-scatter over gloo", "all 16 ranks", "3 probe steps"))


def test_no_probe_is_not_health() -> None:
    said = judge(
        [NodeInspection(results={ProbeResult: InspectionResult(because=say("there is no PyTorch"))})], ["probe"]
    )

    assert [item.check for item in said.not_checked] == ["probe"]
    assert said.checked == ()


def test_an_answer_is_found_among_what_libraries_print() -> None:
    probed = machine(2)

    assert find_answer("NCCL version 2.27\n" + answer_line(probed) + "bye") == ProbeAnswer(probed)
    assert find_answer(refusal_line("no torch")) == ProbeAnswer(refused="no torch")
    assert find_answer("Traceback") is None
    assert find_answer('unhang-probe {"probed": 3}') is None


@pytest.mark.parametrize(
    ("stored", "because"),
    [
        (answer_line(machine()), None),
        (refusal_line("PyTorch cannot be imported here"), "PyTorch cannot be imported here"),
        ("Segmentation fault", "Segmentation fault"),
        (None, "there is no stored probe"),
    ],
)
def test_a_stored_machine_answers_as_it_did(stored: str | None, because: str | None, tmp_path: Path) -> None:
    text = 'node = "h1"\n'
    if stored is not None:
        (tmp_path / "probe.txt").write_text(stored)
        text += '[[command]]\nwords = "unhang.check.probe probe"\noutput = "probe.txt"\n'
    (tmp_path / "machine.toml").write_text(text)

    found = dict(collect(StoredMachine(tmp_path), PlannedJob()))[ProbeResult]

    assert (found.found is not None) is (because is None)
    assert because is None or because in str(found.because)


def test_the_group_sizes_of_the_job_are_tried() -> None:
    tree = {"parallelism": {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 1}}
    here = NodeInspection(
        results={
            Launch: InspectionResult(Launch("torchrun", processes=8, nodes=2)),
            Configuration: InspectionResult(Configuration((ConfigFile("t.toml", "torchtitan", tree),))),
        }
    )

    assert probe_arguments(here) == ["probe", "--ranks", "8", "--planned", "16", "--scope", "tensor_parallel=2:2"]
