"""What was changed between two runs, ordered by how much it matters for stalls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from unhang.knowledge.job.environment_variables import variable
from unhang.knowledge.job.versions import VersionRow, rows_affecting
from unhang.sentences import Text, say
from unhang.wire.documents.run_settings import RunSettings
from unhang_compare.comparison import Change

KNOWN_BAD, RANKS, TRANSPORT, LIBRARY, CARDS, TUNED, NODES = 100, 90, 80, 75, 70, 60, 55
PACKAGE, OTHER_VARIABLE, PROGRAM, COMMAND, OTHER_KEY = 50, 45, 40, 35, 30
_TRANSPORT = ("NCCL_", "RCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_DIST", "TORCH_GLOO_", "FI_", "UCX_", "MASTER_ADDR")
_LIBRARIES = frozenset(("torch", "nccl", "cuda", "cuda of the driver", "nvidia-driver", "rccl", "hip", "deepspeed"))
_TUNED = re.compile(
    r"timeout|worker|prefetch|batch|accum|seed|shuffle|drop_last|save|checkpoint|ckpt|eval|log|flush|zero|stage|fsdp"
    r"|shard|parallel|dp_|tp_|pp_|ep_|backend|overlap|offload|bucket|seq_?len|max_length|num_generations|precision|bf16"
    r"|fp16|compile|dispatch|stream|cache|pin_memory|sampler|split",
    re.IGNORECASE,
)


def find_changes(before: RunSettings, after: RunSettings) -> tuple[Change, ...]:
    """Everything that is not as it was, what matters most first."""
    found = [
        *_versions(before.versions, after.versions),
        *_environment(before, after),
        *_machines(before, after),
        *_configuration(before, after),
        *_command(before, after),
    ]
    return tuple(sorted(found, key=lambda change: -change.matters))


def find_version_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """The same of what traces or logs tell: only what both sides tell, for what is not told may be the same."""
    both = before.keys() & after.keys()
    found = _versions({name: before[name] for name in both}, {name: after[name] for name in both})
    return tuple(sorted(found, key=lambda change: -change.matters))


def _versions(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name, old, new in _different(before, after):
        if name.startswith("nvidia-nccl") and "nccl" in after:
            continue  # said as nccl
        row = _newly_bad(name, old, new)
        if row is not None:
            because = say("known of {version}: {symptom}", version=f"{name} {new}", symptom=row.symptom)
            yield Change("version", name, old, new, KNOWN_BAD, because, known_bad=True)
            continue
        kind = {"cards": "card", "ranks": "ranks", "backend": "ranks"}.get(name, "version")
        matters = LIBRARY if name in _LIBRARIES else PACKAGE
        yield Change(kind, name, old, new, RANKS if kind == "ranks" else CARDS if kind == "card" else matters)


def _newly_bad(package: str, old: str | None, new: str | None) -> VersionRow | None:
    """A defect of the new version that the old one did not have."""
    rows = rows_affecting(package, new or "", kinds=("bad",))
    earlier = rows_affecting(package, old or "", kinds=("bad",)) if old else ()
    return next((row for row in rows if row not in earlier), None)


def _environment(before: RunSettings, after: RunSettings) -> Iterator[Change]:
    for name, old, new in _different(before.environment, after.environment):
        if name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            yield Change("ranks", name, old, new, RANKS)
            continue
        known = variable(name)
        because: Text | None = None
        if known is not None and known.cost:
            because = say("{cost}", cost=known.cost)
        elif known is not None:
            because = say("{effect}", effect=known.effect)
        matters = TRANSPORT if name.startswith(_TRANSPORT) else TUNED if because is not None else OTHER_VARIABLE
        yield Change("environment", name, old, new, matters, because)


def _machines(before: RunSettings, after: RunSettings) -> Iterator[Change]:
    sizes = before.world_size, after.world_size
    told = "WORLD_SIZE" in before.environment and "WORLD_SIZE" in after.environment
    if not told and None not in sizes and sizes[0] != sizes[1]:
        yield Change("ranks", "world size", str(sizes[0]), str(sizes[1]), RANKS)
    yield from _cards(before, after)
    nodes = [", ".join(sorted(node.name for node in side.nodes)) for side in (before, after)]
    if nodes[0] != nodes[1]:
        yield Change("node", "nodes", nodes[0] or None, nodes[1] or None, NODES)
        return
    for one, other in zip(before.nodes, after.nodes, strict=False):
        for what in ("kernel", "usable_processors", "memory"):
            old, new = getattr(one, what), getattr(other, what)
            if old != new:
                yield Change("node", what.replace("_", " "), str(old), str(new), NODES)


def _cards(before: RunSettings, after: RunSettings) -> Iterator[Change]:
    kinds = [_counted(card.name for card in side.cards) for side in (before, after)]
    if kinds[0] != kinds[1]:
        yield Change("card", "cards", kinds[0] or None, kinds[1] or None, CARDS)
        return
    uuids = [{f"card {card.index}": card.uuid for card in side.cards} for side in (before, after)]
    for name, old, new in _different(*uuids):
        yield Change("card", name, old, new, NODES, say("another GPU of the same model"))
    widths = [{c.index: str(c.width) for c in side.cards if c.width} for side in (before, after)]
    for index in widths[0].keys() & widths[1].keys():
        if widths[0][index] != widths[1][index]:
            yield Change("card", f"PCIe lanes of card {index}", widths[0][index], widths[1][index], CARDS)


def _counted(names: Iterator[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(Counter(names).items()))


def _configuration(before: RunSettings, after: RunSettings) -> Iterator[Change]:
    sides = [{_tail(file.path): file for file in side.files} for side in (before, after)]
    for path in dict.fromkeys((*sides[0], *sides[1])):
        one, other = sides[0].get(path), sides[1].get(path)
        if one is None or other is None:
            yield Change("configuration", path, one.path if one else None, other.path if other else None, TUNED)
            continue
        for key, old, new in _different(one.keys, other.keys):
            yield Change("configuration", f"{path}: {key}", old, new, TUNED if _TUNED.search(key) else OTHER_KEY)
    if before.program.get("sha256") != after.program.get("sha256") and before.program and after.program:
        old, new = ((side.program.get("commit") or side.program["sha256"])[:12] for side in (before, after))
        if old == new:
            old, new = (side.program["sha256"][:12] for side in (before, after))
        name = _tail(after.program.get("path", "program"))
        yield Change("program", name, old, new, PROGRAM, say("the program's code differs"))
    elif before.program.get("commit") != after.program.get("commit"):
        yield Change("program", "commit", before.program.get("commit"), after.program.get("commit"), PROGRAM)


def _command(before: RunSettings, after: RunSettings) -> Iterator[Change]:
    """Words of the command that are on one side only: of options with their values."""
    sides = [dict(_options(side.command)) for side in (before, after)]
    for name, old, new in _different(*sides):
        yield Change("command", name, old, new, TUNED if _TUNED.search(name) else COMMAND)


def _options(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    at = place = 0
    while at < len(words):
        word = words[at]
        name, sign, value = word.partition("=")
        if word.startswith("-") and sign:
            yield name, value
        elif word.startswith("-") and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
            yield word, words[at]
        elif word.startswith("-"):
            yield word, "set"
        else:
            place += 1
            yield f"word {place}", word
        at += 1


def _tail(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _different(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield name, old, new
