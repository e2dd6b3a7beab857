"""Whatever the settings do to each other: what comes back works, and nothing in it is superfluous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from unhang.check.bisect.bisect import (
    Bisection,
    BisectResult,
    BisectTrial,
    best_trial,
    full_combinations,
    judge_trial,
    minimal_subset,
    needed_settings,
    smallest_together,
    working_singles,
)
from unhang.check.bisect.bisect_verdict import verdict_of
from unhang.check.probe_results.probe_results import ProbeAnswer, ProbeResult, ProbeStep
from unhang.findings import Cause, Certainty, RemedyKind, Severity, Status
from unhang.knowledge.job.workarounds import Workaround, applicable_workarounds, workarounds, workarounds_to_unset


@dataclass(frozen=True)
class Switch:
    name: str
    value: str = "1"
    set: Mapping[str, str] = field(init=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "set", {self.name: self.value})


SWITCHES = tuple(Switch(f"V{number}") for number in range(8))


@given(st.sets(st.integers(0, 7), min_size=1))
def test_exactly_what_is_needed_is_found(needed: set[int]) -> None:
    want = {SWITCHES[number] for number in needed}

    found = minimal_subset(SWITCHES, lambda some: want <= set(some))

    assert set(found) == want


@given(st.sets(st.frozensets(st.integers(0, 5)), max_size=30))
def test_what_comes_back_works_and_nothing_can_be_left_out(enough: set[frozenset[int]]) -> None:
    switches = SWITCHES[:6]
    sets = {frozenset(switches[number] for number in some) for some in enough} | {frozenset(switches)}

    found = minimal_subset(switches, lambda some: frozenset(some) in sets)

    assert frozenset(found) in sets
    for one in found:
        rest = frozenset(found) - {one}
        assert not rest or rest not in sets


def test_settings_of_one_variable_are_never_set_together() -> None:
    options = (Switch("IF", "a"), Switch("IF", "b"), Switch("P2P"))

    assert full_combinations(options) == ((options[0], options[2]), (options[1], options[2]))
    assert smallest_together(options, lambda some: Switch("IF", "b") in some and Switch("P2P") in some) == (
        options[1],
        options[2],
    )


def test_nothing_that_helps_is_none() -> None:
    assert working_singles(SWITCHES, lambda _: False) == ()
    assert smallest_together(SWITCHES, lambda _: False) is None


def probed(*, bus: float | None, failed: bool = False, wrong: tuple[int, ...] = ()) -> ProbeAnswer:
    size = 4 << 20
    step = ProbeStep("all-reduce", "world", ((0, 1),), size, finished=(0, 1), wrong=wrong)
    if failed:
        step = ProbeStep("connect", "world", ((0, 1),), stuck=(0, 1))
    elif bus is not None:
        step = ProbeStep("all-reduce", "world", ((0, 1),), size, size / bus, (0, 1), wrong=wrong)
    return ProbeAnswer(ProbeResult("nccl", ("h1", "h1"), (step,), 5.0))


OPTIONS = {setting.id: setting for setting in applicable_workarounds("nccl", several_nodes=False, interfaces={})}


def search(answers: Mapping[frozenset[str], ProbeAnswer], usual: ProbeAnswer) -> tuple[Bisection, list[dict[str, str]]]:
    asked: list[dict[str, str]] = []

    def ask(changes: Mapping[str, str]) -> ProbeAnswer:
        asked.append(dict(changes))
        return answers.get(frozenset(changes), usual)

    return Bisection(ask, lambda _: list(OPTIONS.values()), 60.0), asked


def test_where_everything_works_nothing_is_tried() -> None:
    bisect, asked = search({}, probed(bus=40e9))

    result = bisect.search()

    assert (result.answer, asked) == (None, [{}])


def test_the_fastest_single_setting_is_chosen_and_the_fault_looked_at_again() -> None:
    answers = {
        frozenset({"NCCL_P2P_LEVEL"}): probed(bus=30e9),
        frozenset({"NCCL_P2P_DISABLE"}): probed(bus=8e9),
    }
    bisect, asked = search(answers, probed(bus=None, failed=True))

    result = bisect.search()

    assert result.answer is not None
    assert result.answer.set == {"NCCL_P2P_LEVEL": "PIX"}
    assert asked[-1] == {}
    assert result.again


def test_two_settings_that_help_only_together() -> None:
    def ask(changes: Mapping[str, str]) -> ProbeAnswer:
        return (
            probed(bus=2e9)
            if {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"} <= set(changes)
            else probed(bus=None, failed=True)
        )

    result = Bisection(ask, lambda _: list(OPTIONS.values()), 60.0).search()

    assert result.answer is not None
    assert set(result.answer.set) == {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}


def test_a_setting_that_goes_on_crawling_does_not_count() -> None:
    before = probed(bus=1e6).probed

    assert not judge_trial((), probed(bus=2e6), before).works
    assert judge_trial((), probed(bus=5e6), before).works
    assert not judge_trial((), probed(bus=5e9, wrong=(1,)), before).works


def test_when_the_time_is_up_it_says_so() -> None:
    bisect, asked = search({}, probed(bus=None, failed=True))
    bisect.total_s = -1.0

    result = bisect.search()

    assert (result.out_of_time, result.answer, asked) == (True, None, [{}])


def test_of_two_about_as_fast_the_one_that_switches_less_off() -> None:
    first, second, third = BisectTrial((), True, 9.5), BisectTrial((), True, 10.0), BisectTrial((), True, 2.0)

    assert best_trial([third, first, second]) is first


def test_an_interface_is_sent_by_its_network() -> None:
    options = list(applicable_workarounds("gloo", several_nodes=True, interfaces={"10.1.0.0/16": "eth7"}))

    assert options[0].set == {"GLOO_SOCKET_IFNAME": "eth7"}
    assert options[0].sent == {"GLOO_SOCKET_IFNAME": "@10.1.0.0/16"}
    assert "gloo-loopback" not in {option.id for option in options}


def test_every_row_can_be_tried_and_names_a_cause() -> None:
    from unhang.findings import Cause
    from unhang.knowledge.job.environment_variables import variables

    known = {variable.name for variable in variables()}
    for row in workarounds():
        assert isinstance(row, Workaround)
        assert Cause(row.cause)
        assert set(row.set) <= known


def with_settings(environment: dict[str, str], works: Callable[[Mapping[str, str]], ProbeAnswer]) -> BisectResult:
    return Bisection(
        works, lambda _: [], 60.0, lambda before: workarounds_to_unset(before.backend, environment)
    ).search()


FOLKLORE = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "PATH": "/bin"}


def test_settings_that_are_there_and_not_needed_are_said_to_cost_what_they_cost() -> None:
    result = with_settings(FOLKLORE, lambda changes: probed(bus=90e9 if changes else 9e9))

    assert result.superfluous is not None
    assert set(result.superfluous.set) == {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}  # not InfiniBand: there is one node
    (finding,) = verdict_of(result, "h1").findings
    assert (finding.severity, finding.remedies[0].unset) == (Severity.SLOWS, ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"))
    assert "10.0 times as fast" in str(finding.summary)


def test_of_the_settings_that_are_there_the_needed_one_is_kept() -> None:
    result = with_settings(
        FOLKLORE, lambda changes: probed(bus=None, failed=True) if "NCCL_P2P_DISABLE" in changes else probed(bus=9e9)
    )

    assert result.superfluous is not None
    assert set(result.superfluous.set) == {"NCCL_SHM_DISABLE"}
    assert [dict(one.set) for one in result.kept] == [{"NCCL_P2P_DISABLE": ""}]
    said = verdict_of(result, "h1")
    assert [finding.severity for finding in said.findings] == [Severity.NOTE]
    assert any("NCCL_P2P_DISABLE is set here and needed" in str(item.what) for item in said.checked)


def test_all_of_them_may_be_needed() -> None:
    result = with_settings(FOLKLORE, lambda changes: probed(bus=None, failed=True) if changes else probed(bus=9e9))

    assert (result.superfluous, len(result.kept)) == (None, 2)


def test_a_verdict_names_the_setting_its_price_and_the_repair() -> None:
    answers = {frozenset({"NCCL_P2P_DISABLE"}): probed(bus=8e9)}
    result = search(answers, probed(bus=None, failed=True))[0].search()

    (finding,) = verdict_of(result, "h1").findings

    assert (finding.check, finding.cause, finding.certainty) == ("probe", Cause.P2P_BROKEN, Certainty.POSSIBLE)
    assert finding.remedies[0].set == {"NCCL_P2P_DISABLE": "1"}
    assert "8000.0 MB/s" in str(finding.remedies[0].cost)
    assert finding.remedies[1].kind is RemedyKind.INFRASTRUCTURE
    assert "bisect" not in " ".join(str(remedy.change) for remedy in finding.remedies)


def test_a_search_that_could_not_begin_is_not_health() -> None:
    result = Bisection(lambda _: ProbeAnswer(refused="PyTorch cannot be imported here"), lambda _: [], 60.0).search()

    said = verdict_of(result, "h1")

    assert (said.status, said.checked) == (Status.UNKNOWN, ())
    assert "PyTorch cannot be imported" in str(said.not_checked[0].because)


def test_what_a_machine_needs_and_what_it_does_without() -> None:
    told = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    p2p, shm = (one for one in workarounds_to_unset("nccl", told) if {*one.set} & {*told})
    helps = BisectTrial((OPTIONS["p2p"], OPTIONS["simple"]), works=True)

    assert needed_settings(BisectResult(answer=helps), {}) == ({"NCCL_P2P_DISABLE": "1", "NCCL_PROTO": "Simple"}, ())
    assert needed_settings(BisectResult(answer=helps, again=False), {}) == ({}, ())
    assert needed_settings(BisectResult(answer=BisectTrial((shm,), works=True)), told) == ({}, ("NCCL_SHM_DISABLE",))
    partly = BisectResult(superfluous=BisectTrial((shm,), works=True), kept=(p2p,))
    assert needed_settings(partly, told) == ({"NCCL_P2P_DISABLE": "1"}, ("NCCL_SHM_DISABLE",))
    assert needed_settings(BisectResult(), told) == ({}, ())
