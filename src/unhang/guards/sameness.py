"""``same_on_all_ranks``: the same data, length, configuration or state everywhere, or an error that says where not.

Ranks exchange 16 bytes through the job's store, never the value and never a collective; only where those differ do
two of them show each other parts, down to the first difference.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from unhang.errors import RanksDiffer, StoreLost
from unhang.guards.arguments import checked_seconds
from unhang.guards.exchange.first_difference import ValueDifference, first_difference
from unhang.guards.exchange.printing import exception_text, print_message, ranks_text
from unhang.guards.exchange.rank_exchange import RankExchange, current_exchange
from unhang.guards.fingerprints.nodes import FingerprintBudget, Limits, Node
from unhang.guards.fingerprints.plain import fingerprint
from unhang.guards.seeding import last_seeded
from unhang.guards.split_hints import unseeded_splits
from unhang.inprocess import annotations as marked
from unhang.wire.guard_statement import GuardStatement

_LOG = logging.getLogger("unhang.guards")
_DETAIL_S = 20.0
"""Ranks that have just met answer at once; reading a part again takes a moment."""


@dataclass(frozen=True, slots=True)
class _RankValue:
    """What a rank says first: the digest of its value, series it had no time to finish, its seed, its failure."""

    root: str
    cut: Mapping[str, int]
    seed: str
    failed: str

    def encode(self) -> bytes:
        return json.dumps([self.root, dict(self.cut), self.seed, self.failed]).encode()


def same_on_all_ranks(value: Any, name: str = "value", *, timeout_s: float = 60.0) -> None:
    """Raise on every rank if ``value`` is not the same on all of them; every rank calls it, at the same place.

    Takes data sets (Hugging Face, torch, WebDataset), lists, mappings, data classes, configurations, arrays, tensors,
    modules, random states (``unhang.random_states()``), and anything made of them. Long data is sampled: up to 1,024
    rows spread over the whole, a few seconds in all; the log of ``unhang.guards`` says what was compared. Streams are
    not read, shards of a tensor are compared by layout, random states stay as they are.

    Where ranks do not come within ``timeout_s``, nothing is compared, a line says so, and training goes on.

    Raises:
        RanksDiffer: with the ranks that differ and the first difference.
        UsageError: ``timeout_s`` is no number above 0.
    """
    timeout_s = checked_seconds("same_on_all_ranks", "timeout_s", timeout_s)
    try:
        met = current_exchange()
        if met is not None:
            _compare(met, value, name, timeout_s, sys._getframe(1))  # noqa: SLF001 - the caller's file is looked at
    except StoreLost as error:
        print_message(f"{name} was not compared: {error}")


def _compare(met: RankExchange, value: Any, name: str, timeout_s: float, caller: FrameType) -> None:
    began = time.monotonic()
    look = FingerprintBudget()
    node, failed = _read(value, look)
    limits: Limits = {}
    heard = _exchange(met, name, _RankValue(_digest(node, limits), look.cut, str(last_seeded()), failed), timeout_s)
    if heard is not None and (limits := _least_read(heard)):
        heard = _exchange(met, name, _RankValue(_digest(node, limits), {}, str(last_seeded()), failed), _DETAIL_S)
    if heard is None:
        return
    cohorts = _cohorts(heard)
    if len(cohorts) > 1:
        difference = _describe(met, name, node, limits, cohorts, heard)
        raise _error(name, cohorts, heard, difference, look, value, caller)
    if failed:
        print_message(f"{name} was not compared: it cannot be read ({failed})")
        return
    _LOG.info(
        "%s is the same on %d ranks (%s; %.1f s)",
        name,
        met.world_size,
        ", ".join(look.notes) or "compared whole",
        time.monotonic() - began,
    )


def _read(value: Any, look: FingerprintBudget) -> tuple[Node | None, str]:
    try:
        return fingerprint(value, look), ""
    except Exception as error:  # noqa: BLE001 - the user's own data set runs here; the other ranks wait for our word
        return None, exception_text(error, 200)


def _digest(node: Node | None, limits: Limits) -> str:
    return node.digest(limits) if node is not None else ""


def _exchange(met: RankExchange, name: str, said: _RankValue, timeout_s: float) -> dict[int, _RankValue] | None:
    """What every rank said; None, and a line, when some did not come."""
    what = f"same_on_all_ranks({name!r})"
    try:
        gathered = met.gather(
            f"same/{name}",
            said.encode(),
            timeout_s=timeout_s,
            progress=lambda _, absent: marked.begin_wait(what, absent, limit_s=timeout_s),
        )
    finally:
        marked.end_wait()
    if gathered.missing:
        print_message(
            f"{name} was not compared: {ranks_text(gathered.missing)} did not call "
            f"same_on_all_ranks within {timeout_s:g} s"
        )
        return None
    return {rank: _RankValue(*json.loads(value)) for rank, value in gathered.values.items()}


def _least_read(heard: Mapping[int, _RankValue]) -> dict[str, int]:
    """For each series that some rank had no time to finish: how far every rank came."""
    limits: dict[str, int] = {}
    for said in heard.values():
        for path, units in said.cut.items():
            limits[path] = min(units, limits.get(path, units))
    return limits


def _cohorts(heard: Mapping[int, _RankValue]) -> list[tuple[int, ...]]:
    """Ranks that hold the same, the largest cohort first; of equal ones that with the lowest rank."""
    cohorts: dict[tuple[str, str], list[int]] = {}
    for rank, said in sorted(heard.items()):
        cohorts.setdefault((said.root, said.failed), []).append(rank)
    return sorted((tuple(ranks) for ranks in cohorts.values()), key=lambda ranks: (-len(ranks), ranks[0]))


def _describe(
    met: RankExchange,
    name: str,
    node: Node | None,
    limits: Limits,
    cohorts: Sequence[tuple[int, ...]],
    heard: Mapping[int, _RankValue],
) -> ValueDifference | None:
    pair = (cohorts[0][0], cohorts[1][0])
    for rank in pair:
        if heard[rank].failed:
            return ValueDifference("", f"rank {rank} cannot read it: {heard[rank].failed}")

    def exchange(mine: bytes) -> dict[int, bytes]:
        return met.gather(f"same/{name}/parts", mine, timeout_s=_DETAIL_S).values

    return first_difference(node, limits, met.rank, pair, exchange)


def _error(
    name: str,
    cohorts: Sequence[tuple[int, ...]],
    heard: Mapping[int, _RankValue],
    difference: ValueDifference | None,
    look: FingerprintBudget,
    value: Any,
    caller: FrameType,
) -> RanksDiffer:
    odd = tuple(sorted(rank for cohort in cohorts[1:] for rank in cohort))
    majority = len(cohorts[0]) > len(cohorts[1])
    headline = _headline(name, cohorts, odd, majority=majority)
    first = f"{name}{difference.place}: {difference.what}" if difference is not None else ""
    unseeded = unseeded_splits(caller) if _is_data(value) else []
    reasons = [*([f"First difference: {first}"] if first else []), *_seeds(heard), *unseeded]
    if look.notes:
        reasons.append(f"Compared only: {'; '.join(look.notes)}")
    named = tuple(sorted(heard)) if len(cohorts[0]) == 1 else odd
    said = GuardStatement("differ", name, named, detail=first or headline, of_data=bool(unseeded))
    return RanksDiffer(
        "\n  ".join([headline, *reasons]),
        ranks=odd if majority else tuple(sorted(heard)),
        place=difference.place if difference is not None else "",
        statement=said.line(),
    )


def _headline(name: str, cohorts: Sequence[tuple[int, ...]], odd: tuple[int, ...], *, majority: bool) -> str:
    if majority:
        differ = "differs" if len(odd) == 1 else "differ"
        return f"{name} is not the same on all ranks: {ranks_text(odd)} {differ} from {ranks_text(cohorts[0])}"
    if len(cohorts[0]) == 1:
        return f"{name} is different on each of {ranks_text(sorted((cohorts[0][0], *odd)))}"
    return f"{name} is not the same on all ranks: {ranks_text(odd)} against {ranks_text(cohorts[0])}"


def _seeds(heard: Mapping[int, _RankValue]) -> list[str]:
    seeds = sorted({said.seed for said in heard.values()})
    if len(seeds) > 1:
        return [f"The ranks were seeded differently: {', '.join(seeds)}"]
    if seeds[0].endswith("+rank"):
        return ["The random states differ by rank (rank_offset=True): split before that call, or seed the split itself"]
    return []


def _is_data(value: Any) -> bool:
    """Whether a split or shuffle may have made it: anything but a configuration, a text or a module."""
    if isinstance(value, Mapping):
        return any(map(_is_data, value.values()))
    return isinstance(value, int | float) or (hasattr(value, "__len__") and not isinstance(value, str | bytes))
