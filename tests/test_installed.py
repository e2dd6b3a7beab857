"""What users build on, asked of an installed wheel where nothing else is: no torch, no lab, no clone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import unhang
from tests.distributions import ROOT, BareEnvironment, build

VERSION = unhang.__version__
GUARDS = (
    "BackgroundWriter",
    "even_batches",
    "limits",
    "phase",
    "random_states",
    "rank_zero_first",
    "same_on_all_ranks",
    "save_together",
    "seed_everything",
    "seed_worker",
    "step",
    "together",
)
INTEGRATIONS = {
    "accelerate": "pip install accelerate",
    "deepspeed": "pip install deepspeed",
    "lightning": "pip install lightning",
    "loops": "",
    "pytorch_lightning": "pip install pytorch-lightning",
    "torchtitan": "pip install torchtitan",
    "transformers": "pip install transformers",
}
"""Each, and what it says where its library is missing."""
ENVIRONMENT = {
    "UNHANG_DRY_RUN",
    "UNHANG_DRY_RUN_PEERS",
    "UNHANG_DRY_RUN_STEPS",
    "UNHANG_HISTORY",
    "UNHANG_LANG",
    "UNHANG_NCCL_LINES",
    "UNHANG_NODES_VIA",
    "UNHANG_NODE_NAME",
    "UNHANG_RUN",
    "UNHANG_RUN_DIR",
    "UNHANG_TOKEN",
}
VERBS = ("check", "run", "attach", "diagnose", "explain", "view", "history", "compare", "bisect", "ramp", "reshard")
OF_THE_LAB = {
    "demo": "Run a 4-rank training job that stalls on purpose, diagnose it, and write an HTML report.",
    "lab": "Run real jobs with a known fault and check the verdict.",
}
"""Verb and what help says of it."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def installed(folder: Path, *words: str | Path) -> BareEnvironment:
    environment = BareEnvironment(folder)
    environment.install("--no-deps", *words)
    return environment


@pytest.fixture(scope="module")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    return installed(tmp_path_factory.mktemp("bare") / "venv", *built.glob("unhang-*.whl"))


def told(environment: BareEnvironment, code: str) -> object:
    """What ``code`` prints as JSON."""
    done = environment.run(shlex.join(["python", "-c", f"import json\n{code}"]))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_but_the_wheel_is_there(bare: BareEnvironment) -> None:
    code = (
        "from importlib.util import find_spec\n"
        "print(json.dumps([find_spec('unhang').origin, find_spec('torch'), find_spec('unhang_lab')]))"
    )
    assert told(bare, code) == [str(bare.site / "unhang" / "__init__.py"), None, None]


def test_the_public_names_are_those_that_they_were(bare: BareEnvironment) -> None:
    names = "[name for name in dir(unhang) if name[0] != '_']"
    assert told(bare, f"import unhang\nprint(json.dumps({names}))") == sorted(
        [*GUARDS, "TYPE_CHECKING", "annotations", "errors"]
    )
    code = f"import unhang\nprint(json.dumps([callable(getattr(unhang, name)) for name in {GUARDS}]))"
    assert told(bare, code) == [True] * len(GUARDS)


def test_integrations_are_where_they_were(bare: BareEnvironment) -> None:
    code = f"""
from importlib import import_module
from unhang.errors import MissingExtra
said = {{}}
for name in {sorted(INTEGRATIONS)}:
    try:
        import_module(f"unhang.integrations.{{name}}")
        said[name] = ""
    except MissingExtra as error:
        said[name] = error.next_step
print(json.dumps(said))"""
    assert told(bare, code) == INTEGRATIONS


@pytest.mark.parametrize(("old", "new"), [("unhang.inprocess.targets", "unhang.inprocess.patched_functions")])
def test_a_name_that_users_were_told_is_still_there_and_says_what_it_is_called(
    old: str, new: str, bare: BareEnvironment
) -> None:
    done = bare.run(f"python -W always -c 'import {old}, {new}; assert {old}.restore is {new}.restore_originals'")
    assert done.returncode == 0, done.stderr
    assert f"DeprecationWarning: {old} is called {new} now" in done.stderr


def test_environment_variables_are_those_that_they_were(bare: BareEnvironment) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (bare.site / "unhang").rglob("*.py")]
    assert {name for text in texts for name in re.findall(r"\bUNHANG_[A-Z_]+", text)} == ENVIRONMENT


def test_a_rank_of_unhang_run_is_entered_by_the_path_file_and_no_other_process_is(
    bare: BareEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "births").mkdir()
    command = """python -c 'import sys; print("unhang" in sys.modules)'"""
    assert bare.run(command).stdout == "False\n"
    assert bare.run(command, UNHANG_RUN=str(tmp_path), RANK="3").stdout == "True\n"
    (birth,) = (tmp_path / "births").iterdir()
    assert json.loads(birth.read_text(encoding="utf-8"))["rank"] == 3


def test_the_schema_of_verdicts_is_the_one_in_the_docs(bare: BareEnvironment) -> None:
    schema = bare.run("python -m unhang.report.verdict_document").stdout
    assert schema == (ROOT / "docs" / "verdict.schema.json").read_text(encoding="utf-8")


def test_every_verb_is_in_help(bare: BareEnvironment) -> None:
    shown = bare.run("unhang --help").stdout
    assert set(re.findall(r"^│ (\w+) ", shown, re.MULTILINE)) == {*VERBS, *OF_THE_LAB}
    assert all(f"│ {verb:<8}  {help_} " in shown for verb, help_ in OF_THE_LAB.items())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_can_be_asked_for_help(verb: str, bare: BareEnvironment) -> None:
    done = bare.run(f"unhang {verb} --help")
    assert done.returncode == 0, done.stderr
    assert f"unhang {verb}" in done.stdout


def sentence(verb: str, words: str, but: str = "which is not installed") -> str:
    return f"unhang: {verb} needs the lab of version {VERSION}, {but}: pip install {words}\n"


@pytest.mark.parametrize("words", ["demo", "demo grpo --only before", "demo --help", "lab", "lab run steady --ranks 2"])
def test_a_verb_of_the_lab_says_in_one_line_what_installs_it(words: str, built: Path, bare: BareEnvironment) -> None:
    done = bare.run(f"unhang {words}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == sentence(words.split(maxsplit=1)[0], f"--find-links {built} unhang-lab=={VERSION}")


def follow(environment: BareEnvironment) -> None:
    """Type what ``unhang demo`` says, after which it knows its stories."""
    command = environment.run("unhang demo").stderr.partition("installed: ")[2]
    done = environment.run(command)
    assert done.returncode == 0, done.stderr
    assert environment.run("unhang demo --list").stdout.count("\n") == 5
    assert "rank0-only" in environment.run("unhang lab list").stdout


def test_what_is_said_beside_a_folder_of_wheels_installs_the_lab(built: Path, tmp_path: Path) -> None:
    environment = installed(tmp_path / "venv", *built.glob("unhang-*.whl"))
    follow(environment)

    (noted,) = environment.site.glob("unhang_lab-*.dist-info/METADATA")
    noted.write_text(noted.read_text(encoding="utf-8").replace(f"Version: {VERSION}", "Version: 0.0.9"), "utf-8")
    done = environment.run("unhang demo")
    assert done.returncode == 2
    but = "and not version 0.0.9, which is installed"
    assert done.stderr == sentence("demo", f"--find-links {built} unhang-lab=={VERSION}", but)


@pytest.mark.parametrize("editable", [[], ["--editable"]], ids=["copied", "editable"])
def test_what_is_said_where_a_clone_was_installed_installs_the_lab(editable: list[str], tmp_path: Path) -> None:
    environment = installed(tmp_path / "venv", *editable, ROOT)
    assert environment.run("unhang demo").stderr == sentence("demo", shlex.join([*editable, f"{ROOT}[lab]"]))
    follow(environment)


@pytest.mark.parametrize(
    ("noted", "words"),
    [
        ("", f"unhang-lab=={VERSION}"),
        ('{"url": "https://host/unhang.whl", "archive_info": {}}', f"unhang-lab=={VERSION}"),
        ('{"url": "file:///a/clone/that%20is%20gone", "dir_info": {}}', f"unhang-lab=={VERSION}"),
        (
            '{"url": "https://host/unhang", "vcs_info": {"vcs": "git", "commit_id": "5af1"}}',
            "'git+https://host/unhang@5af1#subdirectory=packages/unhang-lab'",
        ),
    ],
    ids=["an index", "an address", "a folder that is gone", "a repository"],
)
def test_what_is_said_follows_where_unhang_came_from(noted: str, words: str, bare: BareEnvironment) -> None:
    (record,) = bare.site.glob("unhang-*.dist-info/direct_url.json")
    before = record.read_text(encoding="utf-8")
    record.write_text(noted, encoding="utf-8")
    try:
        assert bare.run("unhang demo").stderr == sentence("demo", words)
    finally:
        record.write_text(before, encoding="utf-8")
