"""device-mapping: a rank uses a GPU that is not its own, is shared, or does not exist for it.

What happens: two ranks of one node use one card; `cuda:3` where only one card is visible; a barrier that guesses its
device.
Why it hangs: NCCL refuses two ranks on one device, or deadlocks; the other ranks wait for the one that failed.
Example: `Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10`; `invalid device ordinal` on ranks 1-7.
Fix: call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before the first collective, pass `device_id=` at init,
and set CUDA_VISIBLE_DEVICES either for the whole node or for each task, not both.
Certain when: NCCL or CUDA names the device.
Possible when: a barrier guessed its device. Alone this is a note, because most jobs guess right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording.signals import log_signal, timeouts_after
from unhang.evidence.items import LogEvent
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.logs.log_statements import events_stating, field_text, first_attempt, ranks_of_events
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.ambiguous_errors import unexplained_usage_errors
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, Severity
from unhang.knowledge.thresholds import whole_threshold
from unhang.knowledge.words import Sentences

CAUSE = Cause.DEVICE_MAPPING
tell = Sentences("causes/device-mapping.toml")
_OWN_GPU = "assign-gpu-per-rank"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
FIRST_POSITIONS = whole_threshold("device_mapping.first_positions")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Devices named twice, devices that do not exist, guessed devices."""
    duplicates = first_attempt(facts.events_of("n.dup", "n.dup30"))
    missing = first_attempt(facts.events_of("cuda.ordinal", "cuda.busy"))
    if duplicates:
        yield _shared(facts, duplicates)
    elif missing:
        yield _not_there(facts, missing)
    else:
        yield from _ordered_apart(facts)
    yield from _guessed(facts)


def _shared(facts: Facts, events: tuple[LogEvent, ...]) -> DetectorResult:
    pairs = {r for e in events for name in ("a_rank", "b_rank") if isinstance(r := e.values.get(name), int)}
    ranks = tuple(sorted(pairs)) or ranks_of_events(events)
    return log_signal(
        Grade.STATED,
        tell("same-gpu" if len(ranks) > 1 else "two-same-gpu", ranks=ranks),
        events,
        _OWN_GPU,
        ranks=ranks,
        because=(tell("bus-id-twice"),),
        consequences=timeouts_after(facts, CAUSE, ranks),
    )


def _not_there(facts: Facts, events: tuple[LogEvent, ...]) -> DetectorResult:
    ranks = ranks_of_events(events) or _failed_tasks(facts)
    return log_signal(
        Grade.STATED,
        tell("no-such-gpu-by" if ranks else "no-such-gpu", ranks=ranks),
        events,
        _OWN_GPU,
        whole=all(e.kind == "cuda.ordinal" for e in events),
        ranks=ranks,
        because=(tell("one-visible"), tell("failed-are-awaited")),
        consequences=timeouts_after(facts, CAUSE, ranks),
    )


def _ordered_apart(facts: Facts) -> Iterator[DetectorResult]:
    """NCCL refused the GPUs of ranks that list the same ones, each in an order of its own: a rank's number, as in
    ``device_ids=[rank]``, is then the same GPU for several."""
    refused = unexplained_usage_errors(facts)
    lists = [e for e in facts.events_of("sh.set") if e.rank is not None and e.values["name"] == _VISIBLE]
    users: dict[str, list[int]] = defaultdict(list)
    for rank, cards in sorted((event.rank or 0, field_text(event, "value").split(",")) for event in lists):
        users[cards[rank] if rank < len(cards) else ""].append(rank)
    shared = sorted((ranks, card) for card, ranks in users.items() if card and len(ranks) > 1)
    orders = {field_text(event, "value") for event in lists}
    if not refused or not shared or len(orders) == 1 or len({frozenset(order.split(",")) for order in orders}) > 1:
        return
    ranks = shared[0][0]
    yield log_signal(
        Grade.ORDER,
        tell("same-gpu", ranks=ranks),
        (*refused, *lists),
        _OWN_GPU,
        ranks=ranks,
        because=(tell("own-order"), *(tell("own-order-of", card=card, ranks=ranks) for ranks, card in shared)),
    )


def _failed_tasks(facts: Facts) -> tuple[int, ...]:
    """Ranks that a launcher saw fail by themselves."""
    return tuple(
        sorted({e.rank for e in facts.exits if e.rank is not None and e.exit_code and not e.terminated_by_launcher})
    )


def _guessed(facts: Facts) -> Iterator[DetectorResult]:
    """A guessed device is a note; only a stall at the very first collective makes it a suspect."""
    events = events_stating(facts, "device-guess")
    if not events:
        return
    right = _guessed_global_rank(facts, events)
    first = _in_first_call(facts) and not right
    yield log_signal(
        Grade.BASE_RATE,
        tell("guessed-of" if ranks_of_events(events) else "guessed", ranks=ranks_of_events(events)),
        events,
        "bisect-network-setting" if right else _OWN_GPU,
        severity=Severity.STOPS if first else Severity.NOTE,
        ranks=ranks_of_events(events) if first else (),
        because=(tell("guess-right" if right else "guess-wrong"),),
    )


def _in_first_call(facts: Facts) -> bool:
    """Ranks gave up waiting in the job's first collectives, or somebody ended it while all were there."""
    logged, ended = logged_waits(facts), ended_by_user(facts)
    if logged is None:
        return ended is not None and ended.all_joined
    return all(position is not None and position <= FIRST_POSITIONS for position in logged.positions)


def _guessed_global_rank(facts: Facts, events: tuple[LogEvent, ...]) -> bool:
    """Several ranks of one machine, and each took the GPU of its own number, as its local rank would."""
    hosts = {known.host for known in facts.ranks.values() if known.host is not None}
    pairs = [(event.rank, event.values.get("device")) for event in events]
    return len(hosts) <= 1 and len({rank for rank, _ in pairs}) > 1 and all(rank == device for rank, device in pairs)
