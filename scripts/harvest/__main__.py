"""What programs print is finite and stands in their releases: take it from there.

python -m scripts.harvest                 writes src/unhang/knowledge/templates/*.tsv, and says what is in them
python -m scripts.harvest vllm ray        of these programs alone
python -m scripts.harvest --check         writes nothing; 1 with a diff where what is shipped is not what releases give
python -m scripts.harvest --anchors       which rows of knowledge/messages are found nowhere, and name no public source

Releases are those of programs.toml. pip fetches them once into a cache; classes that are wrong are corrected in
corrections.tsv.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from scripts.harvest.anchors import texts_of, unfound_rows
from scripts.harvest.classes import Correction, load_corrections
from scripts.harvest.programs import Program, default_cache, load_programs, unreached
from scripts.harvest.reading import read_program
from scripts.harvest.shipping import Shipment, shipment_of
from unhang.knowledge.templates.template_rows import ECHO, FOLDER, NOTHING, ROOT, WRAPPER

MAX_BYTES = 3_000_000
"""All files together."""
_QUIET_S = 2
_DIFF_LINES = 60
_COLUMNS = ("templates", ROOT, ECHO, WRAPPER, NOTHING, "corrected", "KB")
_FORMAT = "{:14}" + "{:>10}" * len(_COLUMNS)
Tell = Callable[[str], None]


@contextmanager
def progress(steps: int) -> Iterator[Tell]:
    """Hears of each of ``steps``; a bar on stderr shows them once it takes longer than two seconds."""
    began, bar = time.monotonic(), Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=steps)

    def tell(step: str) -> None:
        bar.update(task, description=step, advance=1)
        if time.monotonic() - began > _QUIET_S:
            bar.start()

    try:
        yield tell
    finally:
        bar.stop()


def table(shipments: Sequence[Shipment]) -> Iterator[str]:
    """By program: what was found, and how it is classed."""
    yield _FORMAT.format("program", *_COLUMNS)
    whole: Counter[str] = Counter()
    for each in shipments:
        sizes = {
            "templates": each.templates,
            "corrected": each.corrected.total(),
            "KB": len(each.text.encode()) // 1000,
        }
        counted = each.classes + Counter(sizes)
        whole += counted
        yield _FORMAT.format(each.program.name, *(counted[column] for column in _COLUMNS))
    yield _FORMAT.format("all", *(whole[column] for column in _COLUMNS))


def idle_corrections(shipments: Sequence[Shipment]) -> list[Correction]:
    """Corrections of the programs that were read which corrected nothing; those of any where all were read."""
    used = {correction for each in shipments for correction in each.corrected}
    read = {each.program.name for each in shipments}
    if read >= {each.name for each in load_programs() if each.kept}:
        read.add("*")
    return [each for each in load_corrections() if each.program in read and each not in used]


def harvest(programs: Sequence[Program], cache: Path, *, check: bool) -> int:
    """Write what is shipped, or compare it; gives the exit code."""
    shipments = []
    with progress(sum(len(program.releases) for program in programs)) as tell:
        for program in programs:
            found = read_program(program, cache, tell)
            if found is not None:
                shipments.append(shipment_of(program, found))
    print(*table(shipments), sep="\n")
    wrong = [f"corrects nothing: {each.program}: {each.start}" for each in idle_corrections(shipments)]
    if check:
        wrong += [line for each in shipments for line in each.diff()]
    else:
        FOLDER.mkdir(exist_ok=True)
        for each in shipments:
            each.path.write_text(each.text, encoding="utf-8")
    size = sum(path.stat().st_size for path in FOLDER.glob("*.tsv"))
    if size > MAX_BYTES:
        wrong.append(f"{size} bytes, more than {MAX_BYTES}")
    print(*wrong[:_DIFF_LINES], *([f"… {len(wrong) - _DIFF_LINES} more"] if len(wrong) > _DIFF_LINES else []), sep="\n")
    return 1 if wrong else 0


def main() -> int:
    """Do what was asked for; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="these alone")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where something would change")
    parser.add_argument("--anchors", action="store_true", help="look for the anchors of knowledge/messages")
    parser.add_argument("--large", action="store_true", help="releases of more than 400 MB too")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where releases are kept (%(default)s)")
    asked = parser.parse_args()
    known = load_programs()
    chosen = [each for each in known if each.name in asked.programs] if asked.programs else list(known)
    if unknown := set(asked.programs) - {each.name for each in known}:
        parser.error(f"not in programs.toml: {', '.join(sorted(unknown))}")
    chosen = [each for each in chosen if asked.large or not each.large]
    if asked.anchors:
        with progress(sum(len(each.releases) for each in chosen) + 1) as tell:
            rows = unfound_rows(texts_of(chosen, asked.cache, tell))
        print(*(f"{row.id}: {' | '.join(row.anchors)} ({row.source})" for row in rows), sep="\n")
        return 0
    code = harvest([each for each in chosen if each.kept], asked.cache, check=asked.check)
    print(*unreached(), sep="\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
