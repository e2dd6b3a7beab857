"""Target ``diagnose``: an input through the whole chain: readers, facts, rules, every output, the command."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.fuzz.folders import Input
from tests.fuzz.outputs import wrong_with, wrong_with_errors
from tests.fuzz.seeds import Seed, case_seeds, write_files
from unhang.cli.main import _report_error
from unhang.cli.output.verdict_output import VerdictOutput, exit_code
from unhang.diagnosis.diagnose import diagnose
from unhang.errors import UnhangError
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.findings import Certainty, Severity, Status, Verdict
from unhang.report.layout.terminal import clean_streams
from unhang.watch.pace.call_drift import find_disagreements

FORMS = (
    *(("text", "en"), ("html", "en"), ("markdown", "en"), ("json", "zh")),
    *(("text", "zh"), ("html", "zh"), ("markdown", "zh"), ("text", "shared")),
)
"""Every input gives JSON in English and, by its number, one of these: each an eighth of all."""
COMMAND_EVERY = 50
"""So many inputs go through the real command line as well."""


def warm_up() -> None:
    """Load what every input needs: templates, words, rules; processes that fork from this one have it then."""
    for seed in case_seeds()[::40]:
        with contextlib.suppress(UnhangError), tempfile.TemporaryDirectory(prefix="unhang-") as folder:
            write_files(seed.files, Path(folder))
            facts = build_facts(read_evidence([folder]))
            for form, lang in FORMS:
                written(diagnose(facts), facts, form, lang)


def check(given: Input, place: Path, number: int) -> Iterator[str]:
    """What is wrong with what unhang makes of ``given``."""
    write_files(given.files, place / "input")
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), clean_streams():
        yield from _chain(given, place / "input", FORMS[number % len(FORMS)])
    yield from wrong_with_errors(errors.getvalue())


def _chain(given: Input, folder: Path, form: tuple[str, str]) -> Iterator[str]:
    try:
        facts = build_facts(read_evidence([str(folder)]))
    except UnhangError as error:
        _report_error(error)
        if "unhang failed" in str(error):
            yield f"failed: {error}"
        return
    if (folder / "dumps").is_dir():
        find_disagreements(folder / "dumps")
    verdict = diagnose(facts)
    yield from _failures(verdict)
    yield from _promises(given, verdict)
    for name, lang in (("json", "en"), form):
        yield from wrong_with(name, written(verdict, facts, name, lang))


def written(verdict: Verdict, facts: Facts, form: str, lang: str) -> str:
    """As the command prints it."""
    shared = lang == "shared"
    output = VerdictOutput.chosen(form, lang="en" if shared else lang, redact=shared)
    target = io.StringIO()
    with contextlib.redirect_stdout(target):
        output.give(verdict, facts)
    return target.getvalue()


def _failures(verdict: Verdict) -> Iterator[str]:
    """Parts that failed: nothing was lost but their answer, and each is a bug."""
    yield from (f"failed: {item.reason}" for item in verdict.unread if item.failed)
    yield from (f"failed: {item.what}: {item.because}" for item in verdict.not_checked if item.failed)


def _promises(given: Input, verdict: Verdict) -> Iterator[str]:
    code = exit_code(verdict)
    if code not in (0, 1, 2, 3):
        yield f"exit code {code}"
    if verdict.status is Status.HEALTHY and code == 1:
        yield "health: healthy with exit code 1"
    if given.foreign or given.seed.name.startswith("found-"):
        return
    if verdict.status is Status.HEALTHY and code == 0 and _troubled(given):
        yield "health: a troubled job is called healthy"
    if given.misspelt:
        return
    for finding in verdict.findings:
        cause, right = finding.cause.value, given.seed.causes
        sure = finding.certainty is Certainty.CERTAIN and finding.severity is not Severity.NOTE
        if sure and cause not in right and cause not in usual_causes(given.seed):
            yield f"certain: {cause} ({finding.detector}) is certain, of a case of {sorted(right)}"


def _troubled(given: Input) -> bool:
    """A job that moves may be well where a case calls it no more than possibly slow, or where its stacks, which alone
    tell for whom the others wait, are not what they were."""
    if given.seed.moves and (
        "/unsure_" in given.seed.name or given.misspelt or _stacks(given.files) != _stacks(given.seed.files)
    ):
        return False
    return not given.seed.ended_well and (given.seed.troubled or usual_code(given.seed) == 1)


def _stacks(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith("stacks/")}


def verdict_on(files: Mapping[str, bytes]) -> tuple[Verdict, int]:
    """The verdict on ``files``, and the exit code of the command."""
    with tempfile.TemporaryDirectory(prefix="unhang-") as folder:
        write_files(files, Path(folder))
        verdict = diagnose(build_facts(read_evidence([folder])))
    return verdict, exit_code(verdict)


@cache
def usual_code(seed: Seed) -> int:
    """The exit code for ``seed`` as it is."""
    try:
        return verdict_on(seed.files)[1]
    except UnhangError:
        return 2


@cache
def usual_causes(seed: Seed) -> frozenset[str]:
    """What is found in ``seed`` as it is: ``tests/test_cases.py`` holds that to be right."""
    try:
        verdict, _ = verdict_on(seed.files)
    except UnhangError:
        return frozenset()
    consequences = (c.cause.value for finding in verdict.findings for c in finding.consequences)
    return frozenset((*(finding.cause.value for finding in verdict.findings), *consequences))


def check_command(given: Input, place: Path, number: int) -> Iterator[str]:
    """The same through a process of its own, as users start it."""
    write_files(given.files, place / "input")
    form, lang = FORMS[number // COMMAND_EVERY % len(FORMS)]
    words = ["diagnose", str(place / "input"), "--format", form, "--html", str(place / "page.html")]
    words += ["--redact"] if lang == "shared" else ["--lang", lang]
    run = subprocess.run(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", *words],
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    if run.returncode not in (0, 1, 2, 3):
        yield f"exit code {run.returncode}: {run.stderr[-300:]!r}"
    if run.returncode != 2:
        yield from wrong_with(form, run.stdout.decode("utf-8", "replace"))
    yield from wrong_with_errors(run.stderr.decode("utf-8", "replace"))
