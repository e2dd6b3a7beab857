"""What ``unhang check`` measures: cards that are taken, links and pairs that are slow."""

from __future__ import annotations

from tests.knowledge.boundaries.boundary import turns
from unhang.check.devices.chosen_cards import is_crowded
from unhang.check.devices.devices import Card, CardProcess, Cards
from unhang.check.probe_results.probe_results import PairSpeed, ProbeResult, ProbeStep
from unhang.check.probe_results.speeds import find_slow_collectives, find_slow_pairs

GB = 1_000_000_000


def crowded(used: int = 0, memory: int = 24 << 30, busy: int = 0, of_one: int | None = None) -> object:
    card = Card(0, "NVIDIA A100", "GPU-0", memory=memory, used=used, busy=busy)
    others = (CardProcess("GPU-0", 9001, "python", of_one),) if of_one is not None else ()
    return is_crowded(Cards((card,), others), card)


@turns("chosen_cards.crowded_bytes")
def memory_in_use(used: int) -> object:
    return crowded(used)


@turns("chosen_cards.crowded_share")
def share_of_a_large_memory_in_use(share: float) -> object:
    return crowded(round(share * (192 << 30)), memory=192 << 30)


@turns("chosen_cards.listed_bytes")
def memory_of_a_listed_process(used: int) -> object:
    return crowded(of_one=used)


@turns("chosen_cards.busy_percent")
def time_in_use(percent: int) -> object:
    return crowded(busy=percent)


def crawls(bus: float, backend: str, link: float | None = None, nodes: int = 1, size: int = 1 << 20) -> object:
    """An all-reduce of two ranks that moves so many bytes a second."""
    step = ProbeStep("all-reduce", "world", ((0, 1),), size, size / bus)
    names = ("n0", "n0") if nodes == 1 else ("n0", "n1")
    return find_slow_collectives(ProbeResult(backend, names, (step,), 60.0, link=link)) is not None


@turns("speeds.link_share")
def share_of_the_link(share: float) -> object:
    return crawls(share * GB, "nccl", link=GB, nodes=2)


@turns("speeds.gloo_single_stream", 39_900_000, 40_100_000)
def gloo_on_a_fast_link(bus: float) -> object:
    return crawls(bus, "gloo", link=10 * GB, nodes=2)


@turns("speeds.gloo_floor", 9_990_000, 10_010_000)
def gloo_on_an_unknown_link(bus: float) -> object:
    return crawls(bus, "gloo")


@turns("speeds.nccl_inside_floor", 499_000_000, 501_000_000)
def nccl_inside_a_machine(bus: float) -> object:
    return crawls(bus, "nccl")


@turns("speeds.nccl_between_floor", 99_900_000, 100_100_000)
def nccl_between_machines(bus: float) -> object:
    return crawls(bus, "nccl", nodes=2)


@turns("speeds.smallest")
def a_small_message(size: int) -> object:
    return crawls(1000, "gloo", size=size)


@turns("speeds.pair_factor")
def slower_than_the_others(factor: float) -> object:
    ranks = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    return bool(find_slow_pairs(PairSpeed(pair, 1.0 if pair == (0, 1) else factor) for pair in ranks))


@turns("speeds.min_pairs")
def pairs_of_other_ranks(count: int) -> object:
    """Rank 0 is slow with all of six partners; so many pairs have nothing to do with it."""
    star = [PairSpeed((0, other), 1.0) for other in range(1, 7)]
    return bool(
        find_slow_pairs([*star, *(PairSpeed((10 + 2 * number, 11 + 2 * number), 10.0) for number in range(count))])
    )


@turns("speeds.max_slow_share")
def many_slow_pairs(share: float) -> object:
    ranks = [(2 * number, 2 * number + 1) for number in range(100)]
    return bool(find_slow_pairs(PairSpeed(pair, 1.0 if pair[0] < 2 * round(100 * share) else 10.0) for pair in ranks))
