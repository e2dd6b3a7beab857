"""What hangs on the rank in ``programs/``: a folder for each question, the answers as marks on the lines.

Every line is asked about, so an answer without a mark is wrong as well; where every line has an answer
(``loops``) only those with a mark are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.program.marks import marks_of
from unhang.evidence.items import SourceFile
from unhang.facts.model import CodeContext
from unhang.facts.stacks.source_context import is_rank_conditional, line_context
from unhang.findings import Source
from unhang.program.rank_dependence.data_loading_code import skipped_rows
from unhang.program.rank_dependence.rank_branches import RankBranch
from unhang.program.rank_dependence.rank_dependent_rounds import rank_bounds
from unhang.program.rank_dependence.same_on_all_ranks import agreeing_call
from unhang.program.rank_dependence.unseeded_splits import unseeded_splits
from unhang.program.syntax.syntax_tree import Loop, ParsedFile, parse_file

PROGRAMS = Path(__file__).with_name("programs")
Answer = tuple[str, int, str]
"""File, line, and what is said of it."""


def branches(files: list[SourceFile]) -> Iterator[Answer]:
    """Lines that only some ranks reach: kind and test of the branch, ``by name`` where nothing but a name says rank."""
    for file, line in _lines(files):
        branch = is_rank_conditional(file, line)
        assert (line_context(file, line).context is CodeContext.RANK_BRANCH) == (branch is not None), line
        if branch is not None:
            yield file.path, line, _words(file, branch)


def rank_loops(files: list[SourceFile]) -> Iterator[Answer]:
    """As branches, with loops that run as often as the rank says, which are told on request only."""
    for file, line in _lines(files):
        branch = is_rank_conditional(file, line, loops=True)
        if branch is None:
            assert line_context(file, line).branch is None
        elif branch.kind == "loop":
            assert is_rank_conditional(file, line) is None
            assert line_context(file, line).context is CodeContext.INSIDE_LOOP
        if branch is not None:
            yield file.path, line, _words(file, branch)


def loops(files: list[SourceFile]) -> Iterator[Answer]:
    """Where a marked line stands to loops and handlers, and over what data."""
    for file in files:
        for line, _ in marks_of(file.text):
            seen = line_context(file, line)
            over = f" over {seen.loop.over}" if seen.loop is not None and seen.loop.iterates_data else ""
            if seen.context is not CodeContext.PLAIN or over:
                yield file.path, line, f"{seen.context.value}{over}"


def rounds(files: list[SourceFile]) -> Iterator[Answer]:
    """Ways to leave the outermost loops of a function that hang on the rank."""
    for file in files:
        program = parse_file(file.text)
        assert isinstance(program, ParsedFile)
        for function in (node for node in program.tree.body if isinstance(node, ast.FunctionDef)):
            for loop in (node for node in function.body if isinstance(node, Loop)):
                for bound in rank_bounds(program, loop, (program.tree, function)):
                    how = f"{' alone' if bound.alone else ''}{'' if bound.sure else ' by name'}"
                    yield file.path, bound.line, f"{bound.kind} {bound.depends_on}{how}, {bound.test}"


def splits(files: list[SourceFile]) -> Iterator[Answer]:
    """Draws without a seed of all ranks, the generator, which others have one, and where its own is set too late."""
    for file, split in unseeded_splits(files):
        others = f", seeded: {' '.join(split.seeded)}" if split.seeded else ""
        late = f", seeded at {split.late.line}: {split.late.text}" if split.late is not None else ""
        yield file.path, split.line, f"{f'{split.call} {split.why} {split.draws_from}'.strip()}{others}{late}"


def parting(files: list[SourceFile]) -> Iterator[Answer]:
    """Draws that decide which data is taken; others decide an order only."""
    for file, split in unseeded_splits(files):
        if split.splits:
            yield file.path, split.line, split.call


def agreed(files: list[SourceFile]) -> Iterator[Answer]:
    """Loops with the collective that decides their rounds."""
    for file, line in _lines(files):
        if file.text.splitlines()[line - 1].lstrip().startswith("for ") and (call := agreeing_call(file, line)):
            yield file.path, line, file.text.splitlines()[call - 1].strip()


def dealt_rows(files: list[SourceFile]) -> Iterator[Answer]:
    """Rows that are skipped, with the line that deals them out by rank."""
    for file in files:
        for skipped in skipped_rows(file):
            dealt = file.text.splitlines()[skipped.dealt_line - 1].strip()
            yield file.path, skipped.line, f"{skipped.function} skips a row of: {dealt}"


QUESTIONS = (branches, rank_loops, loops, rounds, splits, parting, agreed, dealt_rows)


def _lines(files: list[SourceFile]) -> Iterator[tuple[SourceFile, int]]:
    for file in files:
        for line, text in enumerate(file.text.splitlines(), 1):
            if text.strip() and not text.strip().startswith("#"):
                yield file, line


def _words(file: SourceFile, branch: RankBranch) -> str:
    if branch.kind in ("if", "else", "loop"):
        assert branch.test == _tests(file)[branch.line]
    return f"{branch.kind} {branch.test}{'' if branch.sure else ' by name'}"


def _tests(file: SourceFile) -> dict[int, str]:
    """What is tested at a line, or gone through, as :class:`RankBranch` spells it."""
    asked = [(node.lineno, node.iter) for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.For)]
    asked += [
        (node.lineno, node.test) for node in ast.walk(ast.parse(file.text)) if isinstance(node, (ast.If, ast.While))
    ]
    return {line: ast.unparse(test) for line, test in asked}


def cases() -> Iterator[tuple[Callable[[list[SourceFile]], Iterator[Answer]], Path]]:
    """Each question with each of its programs: a file, or a folder of files."""
    for question in QUESTIONS:
        for path in sorted((PROGRAMS / question.__name__).iterdir()):
            if path.name != "__pycache__":
                yield question, path


@pytest.mark.parametrize(
    ("question", "path"), list(cases()), ids=lambda value: getattr(value, "stem", getattr(value, "__name__", ""))
)
def test_what_is_marked_is_found_and_nothing_else(
    question: Callable[[list[SourceFile]], Iterator[Answer]], path: Path
) -> None:
    texts = {file.name: file.read_text() for file in ([path] if path.is_file() else sorted(path.glob("*.py")))}
    marks = [(name, line, words) for name, text in texts.items() for line, words in marks_of(text)]

    found = sorted(question([SourceFile(Source(name), name, text) for name, text in texts.items()]))

    assert marks != []
    assert found == sorted(mark for mark in marks if mark[2])


def test_every_folder_has_its_question() -> None:
    assert {path.name for path in PROGRAMS.iterdir()} == {question.__name__ for question in QUESTIONS}
