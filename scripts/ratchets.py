"""Count what may only get better, and write down what did: ``tests/ratchets.toml``.

    python -m scripts.ratchets

writes every number that got better into the file; one that got worse stays, and ``tests/test_ratchets.py`` is red.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import tomli

from scripts.house import HERE, House, Module, folder_sizes

RECORDED = HERE / "tests" / "ratchets.toml"
COMMAND = "python -m scripts.ratchets"
Counts = dict[str, int]

LINES_BY = 50
"""Budgets are in steps of so many lines: not every small change of a room changes its number."""
MAX_MODULES = 15
LONGEST_FILE = 400
LISTS = {"unhang_lab.cases"}
"""Folders whose files are themselves the list of what there is: these may be as many as they are."""
GRADES = {"unhang.diagnosis.grades"}
"""Where it is decided how certain a grade is."""
NOT_FOR_USERS = {
    "stands": r"\bstands\b",
    "a look": r"\b(?:a|the|this|each|every|one|no|last|next|two|three|many|all|few|from|between|\d+) looks?\b",
    "told": r"\btold\b",
    "got on": r"\bgot on\b",
    "went around": r"\b(?:went|goes|go|gone) around\b",
    "mend": r"\bmend(?:s|ed)?\b",
    "tells": r"\btells\b(?!.{0,60}\bfrom\b)",
    "so long": r"\bso long\b",
    "hold up": r"\b(?:hold|holds|held)\b[^.;:,]{0,30}(?<!-)\bup\b",
}
_PLACE = re.compile(r"\{[^{}:]*:?([^{}]*)\}")


def lines(house: House) -> Counts:
    """Lines of each room, rounded up."""
    counted = {room: sum(module.lines for module in found) for room, found in house.rooms().items()}
    return {room: -(-found // LINES_BY) * LINES_BY for room, found in counted.items()}


def crowded_folders(house: House) -> Counts:
    """Folders with too many modules."""
    sizes = folder_sizes(house.modules)
    return {folder: size for folder, size in sizes.items() if size > MAX_MODULES and folder not in LISTS}


def long_files(house: House) -> Counts:
    """Files with too many lines."""
    return {module.name: module.lines for module in house.modules if module.lines > LONGEST_FILE}


def mean(house: House) -> Counts:
    """Lines a file."""
    return {"lines a file": sum(module.lines for module in house.modules) // len(house.modules)}


def one_importer(house: House) -> Counts:
    """Modules of each room that one file of their own folder alone imports."""
    rooms = {module.name: module.room for module in house.modules}
    return Counter(rooms[name] for name in house.single_importers)


def certainties(house: House) -> Counts:
    """How often the modules of each folder name a certainty."""
    counted: Counter[str] = Counter()
    for module in house.modules:
        if module.name not in GRADES:
            counted[module.name.rpartition(".")[0]] += sum(1 for _ in members_of("Certainty", module.tree))
    return +counted


def causes_of_others(house: House) -> Counts:
    """How often each detector names a cause that is not its own."""
    return +Counter({module.name: _other_causes(module) for module in house.modules if module.room == "causes"})


def _other_causes(module: Module) -> int:
    own = next(
        (node.value for node in module.tree.body if isinstance(node, ast.Assign) and _is_named(node, "CAUSE")), None
    )
    if not isinstance(own, ast.Attribute):
        return 0
    return sum(named != own.attr for named in members_of("Cause", module.tree))


def _is_named(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def members_of(enum: str, tree: ast.Module) -> Iterator[str]:
    """Names of the members of ``enum`` that ``tree`` writes out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == enum:
            yield node.attr


def words(_: House) -> Counts:
    """Sentences for users that hold a word they would stumble over."""
    from scripts.catalogue import known_sentences, source_templates

    return counted_words({*source_templates(), *known_sentences()})


def counted_words(sentences: Iterable[str]) -> Counts:
    """In how many of ``sentences`` each word stands; a place of a template counts as a number."""
    plain = [_PLACE.sub(lambda place: f"0 {place[1]}".rstrip(), sentence) for sentence in sentences]
    return {
        word: sum(bool(re.search(pattern, sentence, re.IGNORECASE)) for sentence in plain)
        for word, pattern in NOT_FOR_USERS.items()
    }


RATCHETS: dict[str, tuple[Callable[[House], Counts], str]] = {
    "lines": (lines, "lines of each room, rounded up to the next 50"),
    "crowded_folders": (crowded_folders, f"modules of each folder that holds more than {MAX_MODULES}"),
    "long_files": (long_files, f"lines of each file that has more than {LONGEST_FILE}"),
    "mean": (mean, "mean lines a file, rounded down; this one may only rise, to 140"),
    "one_importer": (one_importer, "modules that one file alone imports, which lies beside them, by room"),
    "certainties": (certainties, "how often `Certainty.` is written out outside of grades, by folder"),
    "causes_of_others": (causes_of_others, "how often a detector names a cause that is not its own"),
    "words": (words, "sentences for users with a word they would stumble over"),
}
"""What is counted, and how the file says it."""
RISING = {"mean"}


def better(ratchet: str, actual: int, recorded: int) -> bool:
    """Whether ``actual`` is the better number of the two."""
    return actual > recorded if ratchet in RISING else actual < recorded


def recorded() -> dict[str, Counts]:
    """What the file says."""
    found: dict[str, Counts] = tomli.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def improved(ratchet: str, actual: Mapping[str, int], kept: Mapping[str, int]) -> Counts:
    """The numbers of ``kept``, each with what got better; one that is nothing any more is left out."""
    pick = max if ratchet in RISING else min
    found = {key: pick(actual.get(key, 0), value) for key, value in kept.items()}
    return {key: value for key, value in found.items() if value}


def written(head: str, counts: Mapping[str, Mapping[str, int]]) -> str:
    """The file: ``head``, then a table for each ratchet."""
    return "\n\n".join((head, *(_table(name, rows) for name, rows in counts.items()))) + "\n"


def _table(name: str, rows: Mapping[str, int]) -> str:
    return "\n".join((f"# {RATCHETS[name][1]}", f"[{name}]", *(f'"{key}" = {rows[key]}' for key in sorted(rows))))


def head_of(path: Path) -> str:
    """The comment at the top, which ends at the first empty line."""
    return path.read_text(encoding="utf-8").split("\n\n", 1)[0]


def main() -> None:
    """Write down what got better."""
    house, kept = House.at(HERE), recorded()
    counts = {name: improved(name, count(house), kept.get(name, {})) for name, (count, _) in RATCHETS.items()}
    RECORDED.write_text(written(head_of(RECORDED), counts), encoding="utf-8")


if __name__ == "__main__":
    main()
