"""How places of a program are written and quoted in findings about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from unhang.check.risks.risk import Answer
from unhang.findings import Evidence, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.paths.divergent_paths import ProgramPaths, SourceLine
from unhang.program.paths.whole_program import find_program_paths
from unhang.program.program_source import ProgramSource

_Place = TypeVar("_Place")


def found_in(
    here: NodeInspection,
    places: Callable[[ProgramPaths], Iterable[_Place]],
    finding: Callable[[_Place, ProgramSource], Answer],
) -> Iterator[Answer]:
    """A finding for each of the places that the planned program has."""
    program, ways = here.found(ProgramSource), ways_in(here)
    if program is not None and ways is not None:
        yield from (finding(place, program) for place in places(ways))


def ways_in(here: NodeInspection) -> ProgramPaths | None:
    """The ways of the planned program; None where its source was not found, or nothing in it speaks of ranks."""
    program = here.found(ProgramSource)
    return (
        find_program_paths(program.files, program.entered, sharded=_is_sharded(here)) if program is not None else None
    )


def _is_sharded(here: NodeInspection) -> bool:
    """Whether command or configuration spread the parameters of the model over ranks."""
    launch, configuration = here.found(Launch), here.found(Configuration)
    files = configuration.files if configuration is not None else ()
    kinds = {str(file.get("distributed_type", "")).upper() for file in files}
    told = launch is not None and bool(
        {"fsdp", "deepspeed"} & launch.arguments.keys() or launch.launcher == "deepspeed"
    )
    return told or bool(kinds & {"FSDP", "DEEPSPEED"}) or any(file.kind == "deepspeed" for file in files)


def place(at: SourceLine) -> str:
    """``file:line``."""
    return f"{at.path}:{at.line}"


def quotes(program: ProgramSource, places: Iterable[SourceLine | None]) -> Iterator[Evidence]:
    """The lines at these places, each once."""
    texts = {file.path: file.text for file in program.files}
    for path, line in dict.fromkeys((at.path, at.line) for at in places if at is not None):
        lines = texts.get(path, "").splitlines()
        if line <= len(lines):
            yield Evidence(Source(path, line), lines[line - 1].strip())
