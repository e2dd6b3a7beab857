"""Which host, card or image was named again, and the chance that this is chance (the formula: docs/history.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, case, func, select
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import Subquery

from unhang.history.tables import TOOK_PART


@dataclass(frozen=True, slots=True)
class Suspect:
    """What verdicts of ``runs`` runs named, of ``of`` runs in which it took part (0: not known).

    ``cause``: of the last of them, which ended at ``last_s`` (seconds since the epoch). ``chance``: that one of all
    those that took part is named as often where every one is named equally often; None where nothing can be compared.
    """

    kind: str
    name: str
    cause: str
    runs: int
    of: int
    last_s: float
    chance: float | None = None


def find_suspects(connection: Connection, since_s: float, limit: int) -> list[Suspect]:
    """Those that runs which ended after ``since_s`` named, of most runs first."""
    totals = {
        kind: (named, took_part, looked_at)
        for kind, named, took_part, looked_at in connection.execute(
            select(
                TOOK_PART.c.kind,
                func.count(TOOK_PART.c.cause),
                func.count(),
                func.count(TOOK_PART.c.name.distinct()),
            )
            .where(TOOK_PART.c.ended_s >= since_s)
            .group_by(TOOK_PART.c.kind)
        )
    }
    named = _named(since_s, limit)
    asked = select(named, _last_cause(named), _of(named, since_s)).order_by(
        named.c.runs.desc(), named.c.last_s.desc(), named.c.name
    )
    found = []
    for kind, name, host, runs, last_s, cause, of in connection.execute(asked):
        there = "host" if kind == "card" else kind
        draws = totals.get(kind, (0, 0, 0))[0]
        _, among, looked_at = totals.get(there, (0, 0, 0))
        known = of > 0 and looked_at > 1 and (kind != "card" or bool(host))
        chance = chance_of(runs, draws, of / among, looked_at) if known else None
        values = (kind, name, cause, runs, of if known or kind != "card" else 0, last_s, chance)
        found.append(
            msgspec.convert(dict(zip(Suspect.__slots__, values, strict=True)), Suspect)
        )  # anybody may write it
    return found


def _named(since_s: float, limit: int) -> Subquery:
    runs = func.count().label("runs")
    last_s = func.max(TOOK_PART.c.ended_s).label("last_s")
    return (
        select(TOOK_PART.c.kind, TOOK_PART.c.name, func.max(TOOK_PART.c.host).label("host"), runs, last_s)
        .where(TOOK_PART.c.cause.is_not(None), TOOK_PART.c.ended_s >= since_s)
        .group_by(TOOK_PART.c.kind, TOOK_PART.c.name)
        .order_by(runs.desc(), last_s.desc(), TOOK_PART.c.name)
        .limit(limit)
        .subquery()
    )


def _last_cause(named: Subquery) -> ColumnElement[str]:
    one = TOOK_PART.alias()
    return (
        select(one.c.cause)
        .where(one.c.kind == named.c.kind, one.c.name == named.c.name, one.c.cause.is_not(None))
        .order_by(one.c.ended_s.desc(), one.c.run.desc())
        .limit(1)
        .scalar_subquery()
    )


def _of(named: Subquery, since_s: float) -> ColumnElement[int]:
    """In how many runs it took part; a card did where its host did."""
    one = TOOK_PART.alias()
    is_card = named.c.kind == "card"
    kind = case((is_card, "host"), else_=named.c.kind)
    name = case((is_card, named.c.host), else_=named.c.name)
    return (
        select(func.count()).where(one.c.kind == kind, one.c.name == name, one.c.ended_s >= since_s).scalar_subquery()
    )


def chance_of(named: int, draws: int, share: float, looked_at: int) -> float:
    """That one of ``looked_at`` is named ``named`` times or more of ``draws``, each named by its ``share``.

    The upper tail of the binomial distribution, times ``looked_at`` (Bonferroni); at most 1.
    """
    if named <= 0 or share >= 1:
        return 1.0
    log_hit, log_miss, whole = math.log(share), math.log1p(-share), math.lgamma(draws + 1)
    tail = 0.0
    for count in range(named, draws + 1):
        ways = whole - math.lgamma(count + 1) - math.lgamma(draws - count + 1)
        term = math.exp(ways + count * log_hit + (draws - count) * log_miss)
        tail += term
        if count > draws * share and term < tail * 1e-12:
            break
    return min(1.0, tail * looked_at)
