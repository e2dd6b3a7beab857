"""The remedies of a verdict that are one certain edit of one place, as a diff that ``git apply`` takes.

Each edit is a section of its own, under a comment that says what it repairs and whether to read it first. Nothing is
changed here. There is none where the place is not certain, or the file is not as it was read or not the user's own.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unhang.evidence.items import SourceFile
from unhang.findings import Finding, Remedy, RemedyKind, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.edits import EditRow, edit_rows
from unhang.knowledge.libraries import is_library_file
from unhang.program.launch.follow_command import is_shell
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Launch
from unhang.program.program_source import ProgramSource
from unhang.program.syntax.source_text import Replacement, SourceText, calls_named
from unhang.program.syntax.syntax_tree import MAX_SOURCE, find_source, parse_file, parsed_files
from unhang.report.edits.branches import move_out
from unhang.report.edits.calls import edit_argument, put_before
from unhang.report.edits.settings import set_values, set_variables
from unhang.report.localizer import Localizer
from unhang.report.printable import printable
from unhang.sentences import Text, say

_KINDS = {"argument": edit_argument, "statement": put_before, "branch": move_out}
_GENERATED, _HEAD = ("@generated", "do not edit"), 1000
"""What a file says in its first characters that a program writes."""
_CONTEXTS = (3, 2, 1)
"""Lines around a change: fewer where one of them must not be shown."""
_UNCLEAR = say("it is not certain what to edit there")


@dataclass(frozen=True, slots=True)
class PatchSources:
    """What edits are made of. ``read``: the program's files as they were read, by path; ``live``: the same without what
    this launch never runs; ``folders``: where relative paths may begin; ``settings``: where each variable is set."""

    read: Mapping[str, SourceFile]
    live: Sequence[SourceFile]
    folders: Sequence[Path] = (Path(),)
    settings: Mapping[str, Source] = field(default_factory=dict)
    launched_at: Source | None = None
    """Where a script starts the program, which then has the variables of the script."""

    @classmethod
    def of_check(cls, here: NodeInspection) -> PatchSources:
        """Of what ``unhang check`` has seen."""
        program, launch = here.found(ProgramSource) or ProgramSource(), here.found(Launch) or Launch()
        read = {file.path: file for file in program.whole or program.files}
        in_force = (here.found(JobEnvironment) or JobEnvironment({})).in_force.items()
        settings = {name: one.evidence.source for name, one in in_force}
        followed, passing_none_on = launch.followed, {"mpirun", "deepspeed"} & {launch.outer, launch.launcher}
        place = None if followed.image or passing_none_on else followed.place
        return cls(read, program.files, (Path(followed.folder), Path()), settings, place)


@dataclass(frozen=True, slots=True)
class Patch:
    """``text``: the sections, then comments on what is no certain edit here; ``edits``: how many sections."""

    text: str
    edits: int


@dataclass(frozen=True, slots=True)
class _Edit:
    path: Path
    file: SourceText
    replacements: tuple[Replacement, ...]
    safe: bool = False


class _NotCertainError(Exception):
    """A remedy is an edit, but not here: its argument is the sentence that says why."""


def make_patch(findings: Sequence[Finding], sources: PatchSources, localizer: Localizer) -> Patch:
    """The patch of the first remedy of each of ``findings``."""
    done: dict[Path, list[Replacement]] = {}
    sections: dict[tuple[Path, tuple[Replacement, ...]], str] = {}
    refused: list[str] = []
    for finding in findings:
        try:
            edit = _edit_of(finding, finding.remedies[0], sources) if finding.remedies else None
            if edit is None or (edit.path, edit.replacements) in sections:
                continue
            diff = _diff(edit, done.setdefault(edit.path, []), localizer)
        except _NotCertainError as error:
            refused.append(_comment(localizer, finding.summary, say("no patch for this: {why}", why=error.args[0])))
            continue
        label = say("safe to apply") if edit.safe else say("read it before you apply it")
        head = _comment(localizer, finding.summary, finding.remedies[0].title, label)
        sections[edit.path, edit.replacements] = head + diff
    none = _comment(localizer, say("No patch: no fix here is a single, certain edit."))
    return Patch("".join([*(sections.values() or [none]), *dict.fromkeys(refused)]), len(sections))


def _comment(localizer: Localizer, summary: Text, *more: Text) -> str:
    return "".join(f"# {localizer.sentence(text)}\n" for text in (summary, *more))


def _edit_of(finding: Finding, remedy: Remedy, sources: PatchSources) -> _Edit | None:
    """None where the remedy is no edit.

    Raises:
        _NotCertainError: it is one, but not here.
    """
    if remedy.kind is RemedyKind.ENVIRONMENT:
        return _script_edit(remedy, sources)
    rows = [row.filled(remedy.title.values) for row in edit_rows().get(remedy.row, ())]
    rows = [row for row in rows if (row.name or row.kind == "statement") and (row.code or row.kind == "branch")]
    for row in rows:
        if row.kind not in _KINDS:
            if (edit := _value_edit(row, finding, sources)) is not None:
                return edit
            continue
        if not sources.read:
            raise _NotCertainError(say("the source of the program was not read"))
        for where in _places(row, finding, remedy, sources):
            read = find_source(sources.read, where.file)
            if read is None:
                continue
            path, file = _file_at(where.file, sources, read)
            program = parse_file(file.text)
            made = () if isinstance(program, str) else _KINDS[row.kind](file, program, where.line or 0, row)
            if made:
                return _Edit(path, file, made, row.safe and all(one.start == one.end for one in made))
    if rows:
        raise _NotCertainError(_UNCLEAR)
    return None


def _value_edit(row: EditRow, finding: Finding, sources: PatchSources) -> _Edit | None:
    """Of the one configuration file that the finding shows."""
    paths = {one.source.path for one in finding.evidence}
    if len(paths) != 1 or not (path := paths.pop()).lower().endswith((".json", ".yaml", ".yml")):
        return None
    place, file = _file_at(path, sources)
    made = set_values(file, row, {one.text for one in finding.evidence})
    return _Edit(place, file, made) if made else None


def _places(row: EditRow, finding: Finding, remedy: Remedy, sources: PatchSources) -> Iterator[Where]:
    """Where the call that is edited stands; none where that is not certain."""
    values, lines = remedy.title.values, [one.source for one in finding.evidence if one.source.line is not None]
    if row.place == "remedy":
        yield from [Where(str(values["path"]), values["line"], "")] if "path" in values else []
    elif row.place == "finding":
        yield from [finding.where] if finding.where else [Where(one.path, one.line, "") for one in lines[:1]]
    else:
        programs = [(file.path, tuple(program.nodes)) for file, program in parsed_files(sources.live)]
        found = [(path, call) for path, nodes in programs for call in calls_named(nodes, row.calls)]
        against = row.unless and any(any(calls_named(nodes, row.unless)) for _, nodes in programs)
        yield from [Where(path, call.lineno, "") for path, call in found if len(found) == 1 and not against]


def _script_edit(remedy: Remedy, sources: PatchSources) -> _Edit | None:
    """Of the one script that sets what is to be changed; what nothing sets yet, of that which starts the program."""
    wanted: dict[str, str | None] = {**dict.fromkeys(remedy.unset), **remedy.set}
    known = {name: sources.settings[name] for name in wanted if name in sources.settings}
    lines = {name: one.line for name, one in known.items() if one.line is not None}
    added_at = sources.launched_at if remedy.set else None
    paths = {one.path for one in known.values() or ([added_at] if added_at is not None else [])}
    for path in paths if len(paths) == 1 and len(lines) == len(known) else ():
        place, file = _file_at(path, sources)
        if is_shell(place.name, file.text):
            made = set_variables(file, lines, wanted, before=0 if added_at is None else added_at.line or 0)
            if not made:
                raise _NotCertainError(_UNCLEAR)
            return _Edit(place, file, made)
    return None


def _file_at(path: str, sources: PatchSources, read: SourceFile | None = None) -> tuple[Path, SourceText]:
    """The file on the disk, where it is still what was ``read``, and somebody writes it by hand."""
    places = (folder / (path if read is None else read.path) for folder in sources.folders)
    place = next((one.resolve() for one in places if one.is_file()), None)
    if place is None:
        raise _NotCertainError(say("{path} is not on this disk", path=path))
    try:
        with place.open("rb") as opened:
            raw = opened.read(MAX_SOURCE)
        file = SourceText(raw)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise _NotCertainError(say("{path} cannot be read", path=path)) from error
    if read is not None and raw.decode("utf-8", "replace") != read.text:
        raise _NotCertainError(say("{path} has changed since it was read", path=path))
    if is_library_file(str(place)) or any(mark in file.text[:_HEAD].lower() for mark in _GENERATED):
        raise _NotCertainError(say("{path} is generated or belongs to an installed package", path=path))
    return place, file


def _diff(edit: _Edit, done: list[Replacement], localizer: Localizer) -> str:
    """From the file with what is ``done`` to that with this edit too, which is then done."""
    before, after = (edit.file.with_replaced(some) for some in (done, (*done, *edit.replacements)))
    is_python = not isinstance(parse_file(edit.file.text), str)
    if before is None or after is None or (is_python and isinstance(parse_file(after.text), str)):
        raise _NotCertainError(_UNCLEAR)
    name = _name_in_project(edit.path)
    old, new = (
        io.StringIO(one.raw.decode("utf-8", "surrogateescape"), newline="\n").readlines() for one in (before, after)
    )
    for around in _CONTEXTS:
        lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=around)
        text = "".join(one if one.endswith("\n") else f"{one}\n\\ No newline at end of file\n" for one in lines)
        plain = text.replace("\r\n", "\n")
        if localizer.redactor.text(plain) == plain == printable(plain):
            done += edit.replacements
            return text
    raise _NotCertainError(say("the lines around it may hold a secret, or cannot be shown as they are"))


def _name_in_project(path: Path) -> str:
    """``path`` from the root of the git checkout, or from this folder where that is in none."""
    here = Path.cwd().resolve()
    root = next((one for one in (here, *here.parents) if (one / ".git").exists()), here)
    if not path.is_relative_to(root):
        raise _NotCertainError(say("{path} is outside this project: ask again in its own folder", path=str(path)))
    return path.relative_to(root).as_posix()
