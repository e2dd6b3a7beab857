"""Risks in the cards of a node: whether they are there, well and idle, and which of them the ranks would use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from unhang.check.devices.chosen_cards import (
    better_choice,
    find_chosen_cards,
    is_crowded,
    parts_to_choose,
    ranks_here,
)
from unhang.check.devices.devices import (
    Card,
    CardHealth,
    Cards,
    CardTopology,
    DeviceSelection,
    DriverFailure,
    OtherAccelerators,
    PciCards,
    Xid,
    XidHistory,
)
from unhang.check.devices.memory_need import GIB, Setups, TrainingSetup, changed, memory_needed, training_setups
from unhang.check.environment.environment import Versions
from unhang.check.risks.risk import Answer, Risk, RiskRows, asked_of_a_node, asked_of_several
from unhang.findings import Evidence, Finding, Remedy, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware import xid_row
from unhang.knowledge.thresholds import threshold
from unhang.program.launch.launch import Launch
from unhang.program.settings.job_values import feature, memory_table, mentions, whole_setting
from unhang.program.settings.model_size import ModelSize
from unhang.sentences import Text, first_names

ROWS = RiskRows("devices")
MAX_UNSET = 5
FULL_SHARE = threshold("devices.full_share")
"""With more than this share of its memory taken, a job that fills the other cards cannot start on this one."""
_TOOLS = {"AMD": "rocm-smi --showtopo --showpids", "Intel": "xpu-smi topology -m", "Gaudi": "hl-smi"}
_OPTIONS = {"accelerate": "--num_processes", "deepspeed": "--num_gpus", "srun": "--ntasks-per-node", "mpirun": "-np"}


def device_present(here: NodeInspection) -> Iterator[Answer]:
    """Ranks that find no card end at the start, or work on the processor; the others wait for them.

    Silence of a tool on a machine without a card is no trouble; a refusal is a gap, not a finding.
    """
    result, trouble = here.result(Cards), here.found(DriverFailure)
    others, on_bus = here.found(OtherAccelerators) or OtherAccelerators(), here.found(PciCards) or PciCards()
    nvidia = on_bus.of("nvidia")
    for name, said in zip(others.found, others.said, strict=True):
        yield ROWS.could_not("other-cards", ROWS.words("only-nvidia", said=said), _TOOLS[name], name=name)
    kind = "" if trouble is None else trouble.kind
    broken = kind in ("mismatch", "lost") or (kind == "not-loaded" and bool(nvidia))
    if trouble is not None and broken:
        row = "driver-differs" if kind == "mismatch" else "off-the-bus" if kind == "lost" else "driver-silent"
        yield ROWS.risk(row, evidence=(Evidence(Source("nvidia-smi"), trouble.said),))
    else:
        yield from ROWS.gap("present", result)
    if result.found is not None and result.found.cards:
        kinds = sorted({card.name for card in result.found.cards})
        yield ROWS.fine("present", count=len(result.found.cards), kinds=", ".join(kinds))
    elif broken or result.because is not None:
        return
    elif nvidia:
        torch = (here.found(Versions) or Versions({})).of.get("torch", "")
        meant = any(card.compute for card in nvidia) and not torch.endswith("+cpu")
        yield ROWS.risk("unseen", {"count": len(nvidia)}, severity=None if meant else Severity.NOTE)
    elif not others.found:
        yield ROWS.fine("no-card")


def device_choice(here: NodeInspection) -> Iterator[Answer]:
    """The CUDA runtime ends the list at the first word it does not know, and sees no card where one stands twice.

    Ranks without a card fail while the others wait; a slower kind makes all others wait in every step.
    """
    cards, choice, chosen = here.found(Cards), here.found(DeviceSelection), find_chosen_cards(here)
    if cards is None or choice is None or chosen is None:
        return
    found: list[Finding] = []
    listed = ",".join(choice.words or ())
    said = choice.option.replace("{cards}", listed) or f"CUDA_VISIBLE_DEVICES={listed}"
    evidence = (Evidence(Source("command" if choice.option else "environment"), said),)
    if chosen.unknown or chosen.twice:
        values = {"word": chosen.unknown or chosen.twice, "cards": [card.index for card in cards.cards]}
        row = "no-such-card" if chosen.unknown else "named-twice"
        found.append(ROWS.risk(row, values, subject=chosen.subject, evidence=evidence))
    elif choice.words == ():
        found.append(ROWS.risk("none-named", evidence=evidence))
    kinds = sorted({card.name for card in chosen.cards})
    if len(kinds) > 1:
        better = better_choice(cards, here.found(CardTopology) or CardTopology(), chosen)
        remedy = ROWS.remedy("use-one-kind", cost=ROWS.words("fewer-cards"))
        if better is not None:
            remedy = ROWS.remedy("use-one-kind", **parts_to_choose(chosen, better))
        named = tuple(Evidence(Source("nvidia-smi"), f"GPU {card.index}: {card.name}") for card in chosen.cards[:8])
        values = {"kinds": ", ".join(kinds)}
        found.append(ROWS.risk("different-kinds", values, evidence=named, remedies=(remedy,)))
    numbers = any(word.isdecimal() for word in choice.words or ())
    if numbers and choice.order != "PCI_BUS_ID" and len({card.name for card in cards.cards}) > 1:
        found.append(ROWS.risk("counted-otherwise"))
    yield from found
    if not found and chosen.named and chosen.cards:
        yield ROWS.fine("choice", cards=chosen.indices)


def device_ranks(here: NodeInspection) -> Iterator[Answer]:
    """NCCL refuses two ranks on one card, also in different slices of it; a rank that asks for a missing card fails."""
    chosen, launch = find_chosen_cards(here), here.found(Launch) or Launch()
    if chosen is None:
        return
    started, seen = ranks_here(here), len(chosen.visible)
    processes = started or 1
    if chosen.mig or (processes > 1 and any(card.mig for card in chosen.visible)):
        said = ", ".join(chosen.mig) or "mig.mode.current: Enabled"
        yield ROWS.risk("sliced", evidence=(Evidence(Source("nvidia-smi"), said),))
    elif processes > seen and started and not chosen.unknown and not chosen.twice:
        spelled = _OPTIONS.get(launch.outer or launch.launcher, "--nproc_per_node")  # the spelling of every version
        option = spelled if launch.processes else "nprocs"
        values = {"option": option, "processes": processes, "cards": seen}
        yield ROWS.risk("too-many", values, evidence=(Evidence(Source("command"), f"{option} {processes}"),))
    elif started and chosen.cards:
        yield ROWS.fine("ranks", count=processes, cards=seen)
    closed = [card.index for card in chosen.cards if card.compute_mode == "Prohibited"]
    if closed:
        yield ROWS.risk("closed", {"cards": closed, "index": closed[0]})


def _ranks_share_card(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Two ranks of one node with the same card."""
    places: dict[tuple[str, str], list[int]] = {}
    for situation in situations:
        card = _card_of_rank(situation)
        if card is not None and situation.rank is not None:
            places.setdefault((situation.node, card.uuid or str(card.index)), []).append(situation.rank)
    for (node, card_id), ranks in places.items():
        if len(ranks) > 1:
            values = {"node": node, "card": card_id, "ranks": ranks}
            yield ROWS.risk("shared", values, ranks=tuple(ranks), nodes=(node,))


def _card_of_rank(situation: NodeInspection) -> Card | None:
    chosen, choice = find_chosen_cards(situation), situation.found(DeviceSelection)
    if chosen is None or choice is None or not chosen.visible:
        return None
    if len(chosen.visible) == 1:
        return chosen.visible[0]
    at = choice.local_rank
    return chosen.visible[at] if at is not None and at < len(chosen.visible) else None


def device_crowded(here: NodeInspection) -> Iterator[Answer]:
    """A rank on a card that somebody else uses is slower than the others, or runs out of memory; the others wait."""
    cards, chosen = here.found(Cards), find_chosen_cards(here)
    if cards is None or chosen is None or not chosen.cards:
        return
    crowded = [card for card in chosen.cards if is_crowded(cards, card)]
    is_open = (here.found(Launch) or Launch()).launcher == "python" and ranks_here(here) is None
    if not crowded:
        yield ROWS.fine("crowded")
        return
    indices = [card.index for card in crowded]
    better = better_choice(cards, here.found(CardTopology) or CardTopology(), chosen)
    remedies = []
    if better is not None:
        idle = "use-idle-cards-if-yours" if chosen.named else "use-idle-cards"
        remedies.append(
            ROWS.remedy(idle, {"cards": [card.index for card in better]}, **parts_to_choose(chosen, better))
        )
    pids = ",".join(str(process.pid) for card in crowded for process in cards.on(card))
    remedies.append(ROWS.remedy("ask-owner" if pids else "ask-on-host", {"pids": pids}))
    yield ROWS.risk(
        "full" if any(card.used > FULL_SHARE * card.memory for card in crowded) else "crowded",
        {"cards": indices, "subject": ", ".join(map(str, indices))},
        because=tuple(
            ROWS.words(
                "taken",
                index=card.index,
                used=f"{card.used / 2**30:.1f}",
                total=f"{card.memory / 2**30:.1f}",
                busy="?" if card.busy is None else card.busy,
                count=len(cards.on(card)),
            )
            for card in crowded
        ),
        evidence=tuple(_use_of(cards, card) for card in crowded),
        remedies=tuple(remedies),
        severity=Severity.NOTE if is_open and not chosen.named and len(chosen.visible) > 1 else None,
    )


def _use_of(cards: Cards, card: Card) -> Evidence:
    told = ", ".join(f"{one.pid} {one.name} {one.used >> 20} MiB" for one in cards.on(card)[:4])
    return Evidence(Source("nvidia-smi"), f"GPU {card.index}: {card.used >> 20} MiB / {card.memory >> 20} MiB; {told}")


def device_health(here: NodeInspection) -> Iterator[Answer]:
    """A card that fails in a collective leaves all others in it; one that is slow makes all others wait."""
    cards = here.found(Cards)
    if cards is None or not cards.cards:
        return
    xids, health, chosen = here.result(XidHistory), here.result(CardHealth), find_chosen_cards(here)
    yield from ROWS.gap("xids", xids)
    yield from ROWS.gap("health", health)
    found: list[Finding] = []
    for card in cards.cards:
        mine = [xid for xid in (xids.found or XidHistory()).xids if card.bus and card.bus.startswith(xid.bus)]
        severity = None if chosen is None or card in chosen.cards else Severity.NOTE
        found += _of_card(card, mine, health.found or CardHealth(), severity)
    yield from found
    if not found and health.found is not None:
        yield ROWS.fine("health")


def _of_card(card: Card, xids: Sequence[Xid], health: CardHealth, severity: Severity | None) -> Iterator[Finding]:
    values = {"index": card.index}
    rows = {xid.code: row for xid in xids if (row := xid_row(xid.code)) is not None and row.kind in ("gpu", "link")}
    for code, row in rows.items():
        last = [xid.line for xid in xids if xid.code == code][-1]
        yield ROWS.risk(
            "xid",
            {**values, "code": code, "meaning": row.meaning},
            severity=Severity.NOTE if row.doubt else severity,
            evidence=(Evidence(Source("dmesg"), last),),
        )
    if card.uncorrected:
        said = Evidence(Source("nvidia-smi"), f"ecc.errors.uncorrected.volatile.total: {card.uncorrected}")
        yield ROWS.risk("memory-errors", {**values, "count": card.uncorrected}, severity=severity, evidence=(said,))
    state, slowed = health.remapping.get(card.uuid), ", ".join(health.slowed.get(card.uuid, ()))
    if state is not None:
        said = Evidence(Source("nvidia-smi"), f"remapped_rows.{state}: Yes")
        name = "no-spare-rows" if state == "failure" else "waits-for-reset"
        yield ROWS.risk(name, values, severity=severity, evidence=(said,))
    if slowed:
        said = Evidence(Source("nvidia-smi"), f"GPU {card.index}: {slowed} Active")
        yield ROWS.risk("slowed", {**values, "reasons": slowed}, severity=severity, evidence=(said,))


def memory_of_a_rank(here: NodeInspection) -> Iterator[Answer]:
    """A rank that needs more than its card has free fails in its first steps, and the others wait for it."""
    launch, result, chosen = here.found(Launch) or Launch(), here.result(ModelSize), find_chosen_cards(here)
    cards = [card for card in chosen.cards if card.memory] if chosen is not None else []
    if not launch.program or not cards:
        return
    if result.found is None:
        yield ROWS.could_not("memory", result.because or ROWS.words("no-model"), result.how)
    elif (unclear := _unclear(here, launch)) is not None:
        yield ROWS.could_not("memory", unclear)
    else:
        card = min(cards, key=lambda one: one.memory - one.used)
        answer = _fit(result.found, training_setups(here, result.found, len(cards)), card)
        known = bool(result.found.path) or isinstance(answer, Finding)
        yield answer if known else ROWS.could_not("memory", result.because or Text(""), result.how)


def _fit(size: ModelSize, setups: Setups, card: Card) -> Answer:
    setups = changed(setups, engine=setups[0].engine * card.memory / GIB)
    free, needed = (card.memory - card.used) / GIB, _low_and_high(size, setups)
    values = {
        **needed,
        "card": card.index,
        "free": free,
        "path": size.path or size.named.text,
        "count": size.parameters / 1e9,
    }
    if needed["high"] <= free:
        return ROWS.fine("memory", **values)
    if needed["low"] <= free:
        unset = first_names(tuple(filter(None, dict.fromkeys(_unset(*setups)))), MAX_UNSET)
        return ROWS.could_not("memory", ROWS.words("between-unset" if unset else "between", unset=unset, **values))
    values |= memory_needed(size, setups[0])
    return ROWS.risk("memory", values, evidence=(size.named,), remedies=_ways_to_fit(size, setups, free))


def _unset(least: TrainingSetup, most: TrainingSetup) -> list[str | None]:
    """Settings that would narrow the estimate, as the Trainer calls them."""
    differ = [row.get("unset") for name, row in memory_table()["feature"].items() if name in least.on ^ most.on]
    return [*memory_table()["names"]["batch"][: least.batch != most.batch], *differ]


def _unclear(here: NodeInspection, launch: Launch) -> Text | None:
    """Why the formulas cannot say what this job needs."""
    if not feature(here, "trains") and not mentions(here, memory_table()["feature"]["trains"]["words"]):
        return ROWS.words("no-training")
    if launch.nodes is None and launch.options.keys() & {"nnodes", "num_machines", "num_nodes", "hostfile"}:
        return ROWS.words("no-nodes")
    degrees = ((name, whole_setting(here, name) or 1) for name in memory_table()["names"]["parallel"])
    split = next((name for name, degree in degrees if degree > 1), "")
    return ROWS.words("split-model", name=split) if split else None


def _low_and_high(size: ModelSize, setups: Setups) -> dict[str, float]:
    """GiB, as their sentences name them."""
    return dict(zip(("low", "high"), (sum(memory_needed(size, one).values()) for one in setups), strict=True))


def _ways_to_fit(size: ModelSize, setups: Setups, free: float) -> tuple[Remedy, ...]:
    """Each change that is enough alone, the smallest first; where none is, as many of them together as are."""
    changes: tuple[tuple[Text, dict[str, Any]], ...] = (
        (ROWS.words("checkpointing"), {"on": {"checkpointing"}}),
        (ROWS.words("one-sample"), {"batch": 1}),
        (ROWS.words("shard"), {"stage": 3}),
        (ROWS.words("offload"), {"stage": 3, "on": {"offload_optimizer", "offload_weights"}}),
        (ROWS.words("adapters"), {"adapter": 16}),
        (ROWS.words("four-bit"), {"adapter": 16, "base": 0.5}),
    )
    alone = [(text, _low_and_high(size, changed(setups, **parts))) for text, parts in changes]
    enough = [(text, needed) for text, needed in alone if needed["high"] <= free]
    joined, texts, needed = setups, list[Text](), _low_and_high(size, setups)
    for text, parts in () if enough else changes:
        less = _low_and_high(size, changed(joined, **parts))
        if needed["high"] > free and less["high"] < needed["high"]:
            joined, needed = changed(joined, **parts), less
            texts = [ROWS.words("together", first=texts[0], second=text) if texts else text]
    if texts and needed["high"] <= free:
        enough = [(texts[0], needed)]
    ways = tuple(ROWS.remedy("need-less", {"change": text, **less}) for text, less in enough)
    return ways or (ROWS.remedy("more-memory"),)


def device_nodes(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """A launcher that starts as many processes everywhere fails on the node that has fewer cards."""
    nodes: dict[str, str] = {}
    for situation in situations:
        chosen = find_chosen_cards(situation)
        if chosen is not None and situation.node not in nodes:
            kinds = Counter(card.name for card in chosen.visible)
            nodes[situation.node] = ", ".join(f"{count} × {name}" for name, count in sorted(kinds.items()))
    if len(nodes) < 2:
        return
    usual, count = Counter(nodes.values()).most_common(1)[0]
    if count == len(nodes):
        yield ROWS.fine("nodes", cards=usual)
    for node, cards in nodes.items():
        if cards != usual:
            fewer = not cards or cards.partition(" ")[2] == usual.partition(" ")[2]
            values = {"node": node, "cards": cards or "0", "usual": usual}
            severity = None if fewer else Severity.SLOWS
            yield ROWS.risk("other-cards-than-others", values, severity=severity, nodes=(node,))


RISKS = (
    *asked_of_a_node("devices", device_present, device_choice),
    Risk("device_ranks", "devices", device_ranks, _ranks_share_card),
    *asked_of_a_node("devices", device_crowded, device_health),
    *asked_of_several("devices", device_nodes),
    *asked_of_a_node("configuration", memory_of_a_rank),
)
