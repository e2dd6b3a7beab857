"""What ``scripts/harvest`` takes from sources and compiled files, and what of it is shipped."""

from __future__ import annotations

import io
import re
import sys
import tarfile
from pathlib import Path

import pytest

from scripts.harvest import classes, shipping
from scripts.harvest.__main__ import MAX_BYTES
from scripts.harvest.anchors import texts_of, unfound_rows
from scripts.harvest.classes import LEFT_OUT, Verdict, classify, load_corrections
from scripts.harvest.messages_in_libraries import messages_in_library
from scripts.harvest.messages_in_python import Message, messages_in
from scripts.harvest.programs import Program, fetch, load_programs, read_members, unreached
from scripts.harvest.reading import Found
from scripts.harvest.shipping import shipment_of
from unhang.knowledge.messages import load_messages
from unhang.knowledge.templates.template_rows import COLUMNS, FOLDER, literal_pairs, row_of

SAMPLE = '''
import logging, warnings
from textwrap import dedent
logger = logging.getLogger(__name__)
PREFIX = "Rank {rank} of the group"
REFUSED = "The shards of %s do not fit"

class Engine:
    def start(self, name, error):
        logger.warning("No answer from %s within %d seconds", name, 3)
        self.logger.error(f"Engine {name!r} on {self.host}{self.port} has failed: {error}")
        logging.critical("Lost contact to " + name + " while it ran")
        logger.info("All of this is fine and well")
        logger.log(logging.ERROR, "Worker {} has not come back".format(name))
        log.warning_once("This is said only one time")
        loguru.logger.error("The {} of a logger with braces", name)
        warnings.warn("Such a call will go away", FutureWarning)
        warnings.warn(f"{PREFIX} is gone for good")
        try:
            self.go()
        except OSError as e:
            logger.exception("The engine could not go on")
            raise RuntimeError(f"Engine of {name} could not start: {str(e)}")
        message = "Expected as many shards as ranks"
        message += f", but got {name}."
        raise ValueError(message)

async def check(x):
    assert x > 0, f"The size must be positive, not {x}"
    if x:
        raise KeyError(name)
    elif y:
        raise IOError(REFUSED % x) from error
    elif z:
        raise TypeError("No list was given" if x else "No tuple was given")
    raise ValueError(dedent("""
        First
        A second line of words comes here
        """))
    raise ValueError("too short")
'''
FOUND = [
    ("warning", "Engine.start", "No answer from {} within {} seconds", False),
    ("error", "Engine.start", "Engine {} on {} has failed: {}", True),
    ("critical", "Engine.start", "Lost contact to {} while it ran", False),
    ("error", "Engine.start", "Worker {} has not come back", False),
    ("warning", "Engine.start", "This is said only one time", False),
    ("error", "Engine.start", "The {} of a logger with braces", False),
    ("FutureWarning", "Engine.start", "Such a call will go away", False),
    ("UserWarning", "Engine.start", "Rank {rank} of the group is gone for good", False),
    ("error", "Engine.start", "The engine could not go on", True),
    ("RuntimeError", "Engine.start", "Engine of {} could not start: {}", True),
    ("ValueError", "Engine.start", "Expected as many shards as ranks, but got {}.", False),
    ("AssertionError", "check", "The size must be positive, not {}", False),
    ("IOError", "check", "The shards of {} do not fit", True),
    ("TypeError", "check", "No list was given", False),
    ("TypeError", "check", "No tuple was given", False),
    ("ValueError", "check", "A second line of words comes here", False),
]
LIBRARY = b"\0".join(
    (
        b"\x7fELF\1\2", b"_ZN4ccl5Level is no message at all", b"std::vector<int> of a const void thing",
        b"peer %s did not answer within %zu ms", b"Rank $0 has no device of its own", b"usage: a|b|c == d || e",
        b"two words", b"\xff",
    )
)  # fmt: skip


def test_messages_of_a_module_are_found_with_what_is_filled_in() -> None:
    found = [(m.level, m.place.removeprefix("a/b.py:"), m.template, m.carries) for m in messages_in("a/b.py", SAMPLE)]

    assert found == FOUND


def test_what_is_no_python_has_no_messages() -> None:
    assert list(messages_in("old.py", "print 'what is this for a language'")) == []


def test_sentences_of_a_compiled_file_are_found_and_code_is_not() -> None:
    found = [message.template for message in messages_in_library("libx.so", LIBRARY)]

    assert found == ["Rank {} has no device of its own", "peer {} did not answer within {} ms"]


@pytest.mark.parametrize(
    ("level", "template", "carries", "verdict"),
    [
        ("RuntimeError", "CUDA out of memory on device {}", False, Verdict("root", "gpu-oom", "names")),
        ("RuntimeError", "CUDA out of memory on device {}: {}", True, Verdict("root", "gpu-oom", "names")),
        ("error", "Ray actor died unexpectedly before {}", False, Verdict("echo", "", "elsewhere")),
        ("GetTimeoutError", "The answer of {} did not come: {}", True, Verdict("echo", "", "elsewhere")),
        ("error", "Could not save the table: {}", True, Verdict("wrapper", "", "vague")),
        ("ValueError", "The head count {} is odd", False, Verdict("nothing")),
        ("DeprecationWarning", "The version mismatch check goes away", False, Verdict("nothing", "", "harmless")),
        ("error", "Failed to connect to the head node", False, Verdict("root", "rendezvous", "start")),
    ],
)
def test_a_template_is_classed_by_its_words(level: str, template: str, carries: bool, verdict: Verdict) -> None:
    assert classify(Message(level, "a.py:f", template, carries)) == verdict


@pytest.fixture
def program() -> Program:
    return Program("vllm", "vllm", ("1.0", "2.0"), "Apache-2.0", "https://example.org")


def _forget() -> None:
    for cached in (classes.load_corrections, classes.corrections_of):
        cached.cache_clear()


def found_of(*messages: Message) -> dict[str, Found]:
    return {message.template: Found(message, "1.0", "2.0") for message in messages}


def test_a_correction_stands_above_what_the_words_say(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ("vllm", "Ran out", "root", "gpu-oom", "words", "read"), ("*", "Some other", LEFT_OUT, "", "", "too wide")
    path = tmp_path / "corrections.tsv"
    path.write_text("# head\n" + "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setattr(classes, "CORRECTIONS", path)
    _forget()

    shipped = shipment_of(
        program,
        found_of(
            Message("error", "a.py:f", "Ran out of {} blocks"),
            Message("error", "a.py:f", "Some other line of {}"),
            Message("printed", "liba.so", "Nothing is known of it"),
            Message("error", "a.py:g", "Value {} of {} is {} wrong"),
        ),
    )
    _forget()

    row = "of\troot\tgpu-oom\twords\terror\t1.0..2.0\ta.py:f\tRan out of {} blocks"
    assert [line for line in shipped.text.splitlines() if not line.startswith("#")] == [f"out {row}"]
    assert shipped.corrected.total() == 2


def test_a_change_of_what_is_shipped_is_shown(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "FOLDER", tmp_path)
    shipped = shipment_of(program, found_of(Message("error", "a.py:f", "The value is {}")))

    assert shipped.diff()
    shipped.path.write_text(shipped.text, encoding="utf-8")
    assert shipped.diff() == []


def test_a_source_archive_is_read_without_its_top_folder_and_without_tests(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "vllm-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("vllm/a.py", "vllm/tests/test_b.py", "vllm/b.txt"):
            member = tarfile.TarInfo(f"vllm-1.0/{name}")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"1"))

    assert list(read_members(path, program.counts)) == [("vllm/a.py", b"1")]


def test_a_release_that_pip_cannot_give_is_said(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    assert fetch(program, "1.0", tmp_path) is None
    assert "vllm 1.0 not reached" in capsys.readouterr().err


def test_a_row_is_found_by_one_of_its_anchors_or_by_its_link() -> None:
    rows = load_messages()
    linked = {row.id for row in rows if "https://" in row.source}
    texts = ["\n".join(row.anchors[-1] for row in rows[1:])]

    assert [row.id for row in unfound_rows(texts, rows)] == [rows[0].id] * (rows[0].id not in linked)


def test_what_cannot_be_had_is_said() -> None:
    assert all(re.match(r"not reached: \w[\w-]* \(https://\S+\): \w", said) for said in unreached())


def test_every_constant_of_a_module_may_hold_an_anchor(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vllm-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("vllm-1.0/vllm/a.py")
        text = b"print(f'Rank {x} has' ' gone')"
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    monkeypatch.setattr("scripts.harvest.anchors.fetch", lambda *_: path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert all(" has gone" in text for text in texts_of([program], tmp_path, lambda _: None))


def test_every_program_is_shipped_in_order_and_without_duplicates() -> None:
    kept = sorted(each.name for each in load_programs() if each.kept)
    assert sorted(path.stem for path in FOLDER.glob("*.tsv")) == kept
    for path in FOLDER.glob("*.tsv"):
        lines = [line for line in path.read_text(encoding="utf-8").split("\n")[:-1] if line[0] != "#"]
        templates = [line.split("\t")[-1] for line in lines]
        assert templates == sorted(set(templates)), path.name
        for line in lines:
            words, *columns = line.split("\t")
            assert len(columns) == len(COLUMNS) - 1
            assert words in literal_pairs(columns[-1])
            row_of(path.stem, columns)


def test_what_is_shipped_stays_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.tsv")) <= MAX_BYTES


def test_every_correction_is_in_what_is_shipped() -> None:
    shipped = {path.stem: path.read_text(encoding="utf-8").split("\n") for path in FOLDER.glob("*.tsv")}
    for correction in load_corrections():
        files = shipped.values() if correction.program == "*" else [shipped[correction.program]]
        rows = [line.split("\t") for lines in files for line in lines if line and line[0] != "#"]
        kinds = {row[1] for row in rows if correction.fits(correction.program, row[-1])}
        assert kinds if correction.verdict.kind != LEFT_OUT else not kinds, correction
