"""Half a minute of fuzzing with every run of the tests, what was found before, and what must stay healthy."""

from __future__ import annotations

import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import diagnosing, outputs, proof, reading
from tests.fuzz.folders import Input, packed
from tests.fuzz.mutators import mutators_for
from tests.fuzz.pool import TARGETS, WALL_S, Lane, Work, made, wrong_with
from tests.fuzz.seeds import CASES, CORPUS, Seed, case_seeds, files_of, found_before, healthy_names, listed

ROOT = Path(__file__).parents[2]


def test_half_a_minute() -> None:
    """All targets, each its share, the same inputs every time."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--count", "2000", "--jobs", "2", "--seed", "make test"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=230,
    )

    assert run.returncode in (0, 1), run.stderr
    broken = [line for line in run.stdout.splitlines() if " --only " in line]
    assert broken == [], run.stdout
    done = dict(re.findall(r"\| `(\w+)` \| ([\d,]+)", run.stdout))
    assert set(done) == set(TARGETS)
    assert int(done["readers"].replace(",", "")) > 1400


FOUND = [(target, seed) for target in TARGETS for seed in found_before(target)]


@pytest.mark.parametrize(("target", "seed"), FOUND, ids=lambda value: getattr(value, "name", value))
def test_what_was_found_before_stays_mended(target: str, seed: Seed, tmp_path: Path) -> None:
    name = next(iter(seed.files))

    assert wrong_with(target, name, Input(seed, dict(seed.files), foreign=True), tmp_path / "w", 1) == []


@pytest.mark.parametrize("kind", ["", "zip", "tar.gz"])
@pytest.mark.parametrize("name", healthy_names())
def test_what_is_healthy_stays_healthy(name: str, kind: str) -> None:
    files = listed(files_of(CASES / name / "input"))

    verdict, code = diagnosing.verdict_on({f"sent.{kind}": packed(files, kind)} if kind else files)

    assert (verdict.status.value, code) == ("healthy", 0)


def test_every_story_that_was_repaired_is_among_the_healthy() -> None:
    stories = sorted(path.parent.name.replace("-", "_") for path in ROOT.glob("stories/*/story.toml"))

    assert len(stories) >= 5
    assert [one for one in stories if not any(f"miss_story_{one}_" in name for name in healthy_names())] == []


def test_every_case_is_a_seed_and_every_reader_has_some() -> None:
    assert len(case_seeds()) == len(list(CASES.glob("*/*/expected.json")))
    assert {name: len(seeds) for name, seeds in reading.reader_seeds().items() if not seeds} == {}
    assert set(reading.SHARES) == set(reading.READERS)


def test_every_seed_has_its_turn_and_heavy_ones_a_small_share() -> None:
    light = tuple(b"%d" % number for number in range(30))
    heavy = tuple(bytes((number,)) * (reading.HEAVY_BYTES + 1) for number in range(3))

    used = [reading.in_turn((*heavy, *light), turn) for turn in range(60)]

    assert set(used) == {*light, *heavy}
    assert sum(seed in heavy for seed in used) == 60 // reading.HEAVY_EVERY
    assert {reading.in_turn(heavy, turn) for turn in range(30)} == set(heavy)


def test_a_process_that_spoke_while_nobody_listened_is_not_ended() -> None:
    lane = Lane(iter([Work("readers", "a", 5)]))
    try:
        assert select.select([lane.pipe], [], [], 60)[0]
        lane._since -= 2 * WALL_S

        assert [told.wrong for told in lane.look_after()] == [[]]
    finally:
        lane.stop()


def test_a_number_says_everything_about_an_input() -> None:
    for target in TARGETS:
        works = [Work(target, "a", number) for number in range(20)]
        if target in ("wire", "view"):
            continue  # their messages hold the time
        assert [made(work)[1].files for work in works] == [made(work)[1].files for work in works]


def test_the_corpus_stays_small() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]

    assert sum(sizes) < 1 << 20
    assert max(sizes, default=0) < 64 << 10


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("text", "a\x1b[2Jb"),
        ("stderr", "a\u202eb"),
        ("html", "<p onclick=x>"),
        ("html", "<img src=//x>"),
        ("html", "<a href='http://x'>"),
        ("markdown", "<b>x</b>"),
        ("markdown", "[x](http://x)"),
        ("markdown", "hello @everyone"),
        ("markdown", "see https://x.example"),
        ("json", "{}"),
    ],
)
def test_the_checks_of_outputs_find_what_they_are_for(form: str, text: str) -> None:
    assert list(outputs.wrong_with(form, text))


def test_every_bug_of_the_proof_still_has_its_place() -> None:
    assert len(proof.BUGS) >= 5
    for bug in proof.BUGS:
        assert (ROOT / "src" / "unhang" / bug.file).read_text(encoding="utf-8").count(bug.now) == 1, bug.name


@pytest.mark.parametrize(
    "data", [b"rank 3: step 1 loss <2> of words\n" * 9 + b"x" * 200, b'{"a": [1, 2]}', b"\x80\x02]q\x00(K\x01K\x02e."]
)
def test_every_mutator_changes_something(data: bytes) -> None:
    for mutator in mutators_for(data):
        tries = [mutator(Work("diagnose", "x", number).random, data) for number in range(30)]
        assert any(changed != data for changed in tries)
