"""What a project asks for against what is installed: which files are read, what differs, the line to type; and where
nothing is to be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.environment.projects import ask, environment, project
from unhang.findings import Finding, Severity, Verdict
from unhang.knowledge.tables import read_table
from unhang.report.verdict_document import to_json

TABLE = """
from setuptools import find_packages, setup
_deps = [
    "black>=24.4.2",
    "deepspeed==0.15.4",
    "trl==0.17.0",
    "vllm==0.6.6.post1",
]
deps = {b: a for a, b in (split(x) for x in _deps)}
install_requires = [
    deps["deepspeed"],
    deps["trl"],
]
extras = {"torch": ["torch>=2.5"]}
setup(packages=["p"], keywords=["numpy"], extras_require=extras, install_requires=install_requires)
"""
UV = """version = 1

[[package]]
name = "p"
version = "0.1.0"
source = { editable = "." }

[[package]]
name = "trl"
version = "0.17.0"
source = { registry = "https://pypi.org/simple" }
wheels = [
    { url = "https://files.pythonhosted.org/trl.whl", hash = "sha256:00", size = 1 },
]
"""
FORK = UV + '\n[[package]]\nname = "trl"\nversion = "0.15.2"\nsource = { registry = "https://pypi.org/simple" }\n'
PIPFILE = """{"_meta": {}, "default": {
  "trl": {
    "version": "==0.17.0"
  }
}, "develop": {"torch": {"version": "==1.0"}}}"""
HASHES = r"""wheel==1 \
    --hash=sha256:ab
trl==0.17.0 \
    --hash=sha256:00 \
    --hash=sha256:11
"""
POETRY = '[tool.poetry.dependencies]\npython = "^3.10"\ntrl = "^0.16"\n'
PYPROJECT = '[project]\nname = "p"\ndependencies = [\n  "trl==0.17.0",\n]\n'
EXTRA = """[project]
name = "p"
[project.optional-dependencies]
rl = ["trl==0.17.0"]
[dependency-groups]
rl = ["trl==0.17.0"]
"""
DIFFER: dict[str, tuple[dict[str, str], str]] = {
    "requirements": ({"requirements.txt": "\ntrl==0.17.0 # so\n"}, "requirements.txt:2"),
    "with hashes": (
        {"requirements.txt": HASHES},
        "requirements.txt:3",
    ),
    "of another file": ({"requirements.txt": "-r a/b.txt\n", "a/b.txt": "trl>=0.16,<1\n"}, "a/b.txt:1"),
    "of constraints": ({"requirements.txt": "trl\n-c limits.txt\n", "limits.txt": "trl==0.17.0\n"}, "limits.txt:1"),
    "for this Python": ({"requirements.txt": "trl==0.17.0; python_version == '3.11'\n"}, "requirements.txt:1"),
    "a file for one purpose": ({"requirements-train.txt": "trl==0.17.0\n"}, "requirements-train.txt:1"),
    "pyproject": ({"pyproject.toml": PYPROJECT}, "pyproject.toml:4"),
    "an extra that is asked for": ({"pyproject.toml": EXTRA, "requirements.txt": "-e .[rl]\n"}, "pyproject.toml:4"),
    "poetry": ({"pyproject.toml": POETRY}, "pyproject.toml:3"),
    "setup.py": ({"setup.py": TABLE}, "setup.py:6"),
    "setup.cfg": ({"setup.cfg": "[options]\ninstall_requires =\n    trl==0.17.0\n"}, "setup.cfg:3"),
    "uv": ({"pyproject.toml": PYPROJECT.replace("==0.17.0", ""), "uv.lock": UV}, "uv.lock:8"),
    "poetry's lock": ({"poetry.lock": '# by Poetry\n[[package]]\nname = "trl"\nversion = "0.17.0"\n'}, "poetry.lock:2"),
    "PDM's lock": ({"pdm.lock": '[metadata]\n\n[[package]]\nname = "trl"\nversion = "0.17.0"\n'}, "pdm.lock:3"),
    "Pipfile.lock": ({"Pipfile.lock": PIPFILE}, "Pipfile.lock:2"),
    "conda": ({"environment.yml": "dependencies:\n  - python=3.11\n  - trl=0.17.0\n"}, "environment.yml:3"),
}
SILENT: dict[str, dict[str, str]] = {
    "a range": {"requirements.txt": "trl>=0.15,<0.16\n"},
    "a caret": {"pyproject.toml": '[tool.poetry.dependencies]\ntrl = "^0.15"\n'},
    "another Python": {"requirements.txt": "trl==0.17.0; python_version < '3.11'\ntrl; python_version >= '3.11'\n"},
    "an extra": {"pyproject.toml": EXTRA},
    "a table of which other parts are used": {"setup.py": TABLE.replace('    deps["trl"],\n', "")},
    "several locked releases": {"uv.lock": FORK},
    "files for two purposes": {"requirements-a.txt": "trl==0.17.0\n", "requirements-b.txt": "trl==0.15.2\n"},
    "a file that another one answers": {"setup.py": TABLE, "setup.sh": "pip install trl==0.15.2\n"},
    "packages of conda that Python does not know": {"environment.yml": "dependencies:\n- cudatoolkit=11.3\n- trl\n"},
    "what is only a name": {"setup.py": 'setup(packages=["p"], keywords=["llm"], install_requires=["trl"])\n'},
}


NONE = "none of the packages that requirements.txt asks for is installed here"


def notes(verdict: Verdict) -> list[Finding]:
    """What is said of requirements, without known defects of releases."""
    return [one for one in verdict.findings if any("asks for" in str(text) for text in (one.summary, *one.because))]


@pytest.mark.parametrize(("files", "place"), DIFFER.values(), ids=DIFFER)
def test_a_release_that_is_not_the_one_asked_for(files: dict[str, str], place: str, tmp_path: Path) -> None:
    project(tmp_path, files)

    _, verdict = ask(tmp_path, venv=environment(tmp_path, trl="0.15.2", deepspeed="0.15.4", wheel="1"))

    (note,) = notes(verdict)
    assert (note.severity, note.subject) == (Severity.NOTE, place)
    assert any(f"installed: trl 0.15.2; {place} asks for trl" in str(because) for because in note.because)
    assert str(note.remedies[0].change).startswith("pip install 'trl")
    assert not any("trl" in str(fine.what) for fine in verdict.checked)


@pytest.mark.parametrize("files", SILENT.values(), ids=SILENT)
def test_a_release_that_fits_or_of_which_nothing_is_asked(files: dict[str, str], tmp_path: Path) -> None:
    project(tmp_path, files)

    _, verdict = ask(tmp_path, venv=environment(tmp_path, trl="0.15.2", deepspeed="0.15.4"))

    assert notes(verdict) == []


@pytest.mark.parametrize(
    ("asked", "installed", "fits"),
    [
        ("torch==2.6.0", "2.6.0+cu124", True),
        ("torch==2.6.0+cu124", "2.6.0", True),
        ("torch==2.6.0+cu124", "2.6.0+cpu", False),
        ("torch>=2.6.0", "2.6.0a0+ecf3bae40a.nv25.01", True),
        ("torch>=2.6.0", "2.6.0a0", False),
        ("torch==2.6.*", "2.6.1", True),
        ("torch>=2.6,!=2.6.1", "2.6.1", False),
        ("torch @ git+https://x:y@example.com/torch.git", "2.6.1", True),
    ],
)
def test_what_fits(asked: str, installed: str, fits: bool, tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": asked})

    _, verdict = ask(tmp_path, venv=environment(tmp_path, torch=installed))

    assert (notes(verdict) == []) is fits


def test_what_stalls_comes_first_and_of_the_rest_there_is_a_number(tmp_path: Path) -> None:
    rest = [f"p{number}==2" for number in range(12)]
    project(tmp_path, {"requirements.txt": "\n".join([*rest, "vllm==0.7.2", "transformers==4.49.0"])})
    installed = {f"p{number}": "1" for number in range(12)}

    _, verdict = ask(tmp_path, venv=environment(tmp_path, transformers="5.24.0", **installed))

    (note,) = notes(verdict)
    first, second, third, *_ = map(str, note.because)
    assert first == "installed: transformers 5.24.0; requirements.txt:14 asks for transformers==4.49.0"
    assert second == "not installed: vllm; requirements.txt:13 asks for vllm==0.7.2"
    assert third.startswith("12 packages that seldom decide")
    assert str(note.remedies[0].change) == "pip install 'transformers==4.49.0' 'vllm==0.7.2'"


def test_the_line_names_the_index_and_no_password(tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": "trl==0.17.0\ntorch==2.6.0+cu124\n"})
    venv = environment(tmp_path, trl="0.15.2", torch="2.5.1")
    (venv / "pip.conf").write_text("[global]\nindex-url = https://mirror.example.com/simple\n")

    def line(**variables: str) -> tuple[str, str]:
        verdict = ask(tmp_path, venv=venv, **variables)[1]
        return str(notes(verdict)[0].remedies[0].change), to_json(verdict)

    wheels = (
        "--extra-index-url=https://download.pytorch.org/whl/cu124 \\\n    'torch==2.6.0+cu124' \\\n    'trl==0.17.0'"
    )
    assert line()[0] == f"pip install -i https://mirror.example.com/simple {wheels}"
    assert line(PIP_INDEX_URL="http://10.0.0.2/pypi")[0] == f"pip install -i http://10.0.0.2/pypi {wheels}"
    secret, shown = line(PIP_INDEX_URL="https://me:hunter2@pypi.example.com/simple")
    assert secret == f"pip install {wheels}"
    assert "pypi.example.com" in shown
    assert "hunter2" not in shown
    assert "me:" not in shown


def test_another_pip_comes_first(tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": "trl==0.17.0\n"})
    venv, other = environment(tmp_path, trl="0.15.2"), tmp_path / "usr/bin"
    other.mkdir(parents=True)
    (other / "pip").write_text("")

    _, verdict = ask(tmp_path, venv=venv, PATH=str(other))

    assert str(notes(verdict)[0].remedies[0].change) == f"{venv}/bin/python -m pip install \\\n    'trl==0.17.0'"


@pytest.mark.parametrize(
    ("other", "contradict"), [("torch>=2.7", True), ("torch>=2.5,<3", False), ("torch!=2.7", False)]
)
def test_files_that_contradict_each_other_are_named_once(other: str, contradict: bool, tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": "torch==2.6.0\n", "setup.py": f'setup(install_requires=["{other}"])\n'})

    _, verdict = ask(tmp_path, venv=environment(tmp_path, torch="2.6.0"))

    told = [str(one.summary) for one in verdict.findings if "contradicts itself" in str(one.summary)]
    asked = f"requirements.txt:1 asks for torch==2.6.0, setup.py:1 for {other}"
    assert told == ([f"the project contradicts itself: {asked}"] if contradict else [])


@pytest.mark.parametrize(
    ("script", "stops"),
    [
        ("import os, deepspeed\n", True),
        ("from deepspeed.ops import adam\n", True),
        ("try:\n    import deepspeed\nexcept ImportError:\n    deepspeed = None\n", False),
        ("def main():\n    import deepspeed\n", False),
        ("import sys\nsys.path.insert(0, '/opt/x')\nimport deepspeed\n", False),
        ("import trl\n", False),
    ],
)
def test_an_import_of_what_is_not_installed_stops_the_job(script: str, stops: bool, tmp_path: Path) -> None:
    project(tmp_path, {"train.py": script, "requirements.txt": "deepspeed>=0.16\ntrl\n"})

    _, verdict = ask(tmp_path, venv=environment(tmp_path, trl="0.15.2"))

    stopping = [one for one in verdict.findings if one.severity is Severity.STOPS]
    assert [one.subject for one in stopping] == (["train.py:1"] if stops else [])
    assert all("the import of deepspeed at train.py:1 ends every rank" in str(one.summary) for one in stopping)
    assert all(str(one.remedies[0].change) == "pip install 'deepspeed>=0.16'" for one in stopping)
    assert any("not installed: deepspeed" in str(b) for one in notes(verdict) for b in one.because) is not stops


@pytest.mark.parametrize(
    ("script", "asked", "installed", "stops"),
    [
        ("import os, datasets\n", "datasets==1.18.0", "3.6.0", True),
        ("import datasets as data\n", "datasets<2", "2.14.0", True),
        ("import datasets\n", "datasets>=3", "2.14.0", True),
        ("import datasets\n", "datasets==2.1.0", "2.14.0", False),
        ("import datasets\n", "datasets==0.3.2", "0.6.12", False),
        ("import datasets\n", "datasets==0.6.2", "0.6.12", False),
        ("import datasets\n", "datasets>=0.3", "0.6.12", False),
        ("import datasets\n", "datasets==2023.1.0", "2025.3.0", False),
        ("def main():\n    import datasets\n", "datasets==1.18.0", "3.6.0", False),
    ],
)
def test_an_import_of_another_major_release_may_stop_the_job(
    script: str, asked: str, installed: str, stops: bool, tmp_path: Path
) -> None:
    project(tmp_path, {"train.py": script, "requirements.txt": asked})

    _, verdict = ask(tmp_path, venv=environment(tmp_path, datasets=installed))

    said = [str(one.summary) for one in verdict.findings if one.severity is Severity.STOPS]
    noted = [str(one.summary) for one in verdict.findings if one.severity is Severity.NOTE]
    told = f"train.py:1 imports datasets {installed}, and the project was written for {asked}"
    assert said == ([told] if stops else [])
    assert (told in noted) is (asked == "datasets==0.3.2")


@pytest.mark.parametrize(
    ("script", "helper", "place"),
    [
        ("import helper\n", "import deepspeed\n", "helper.py:1"),
        ("import helper\n", "def main():\n    import deepspeed\n", ""),
        ("try:\n    import helper\nexcept ImportError:\n    helper = None\n", "import deepspeed\n", ""),
    ],
)
def test_an_import_by_what_the_script_imports_stops_it_too(
    script: str, helper: str, place: str, tmp_path: Path
) -> None:
    project(tmp_path, {"train.py": script, "helper.py": helper, "requirements.txt": "deepspeed>=0.16\ntrl\n"})

    _, verdict = ask(tmp_path, venv=environment(tmp_path, trl="0.15.2"))

    assert [one.subject for one in verdict.findings if one.severity is Severity.STOPS] == ([place] if place else [])


@pytest.mark.parametrize(
    ("command", "because"),
    [
        ("python train.py", NONE),
        ("docker run image python train.py", "it depends on what image: image contains"),
        ("conda run -p /nowhere python train.py", NONE),
    ],
)
def test_where_it_cannot_look_it_says_so(command: str, because: str, tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": "trl==0.17.0\n"})
    venv = environment(tmp_path, **({} if command.startswith("python") else {"trl": "0.15.2"}))

    _, verdict = ask(tmp_path, command, venv)

    assert notes(verdict) == []
    assert because in [str(gap.because) for gap in verdict.not_checked]


def test_the_environment_that_conda_runs_is_the_one_that_counts(tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": "trl==0.17.0\n"})
    environment(tmp_path, "conda/envs/rl", trl="0.17.0")
    venv = environment(tmp_path, trl="0.15.2")
    conda = str(tmp_path / "conda/bin/conda")

    _, verdict = ask(tmp_path, "conda run -n rl python train.py", venv, CONDA_EXE=conda)

    assert notes(verdict) == []
    assert len(notes(ask(tmp_path, venv=venv, CONDA_EXE=conda)[1])) == 1


def test_a_file_that_cannot_be_read_is_named_and_the_others_count(tmp_path: Path) -> None:
    project(tmp_path, {"pyproject.toml": "[project\n", "requirements.txt": "trl==0.17.0\n"})

    _, verdict = ask(tmp_path, venv=environment(tmp_path, trl="0.15.2"))

    assert len(notes(verdict)) == 1
    assert "pyproject.toml cannot be read" in [str(gap.because) for gap in verdict.not_checked]


def test_the_rows_name_packages_as_they_are_compared() -> None:
    rows = read_table("requirements.toml")

    names = [*rows["stalls"], *rows["compiled"], *rows["modules"]]
    assert [name for name in names if name != name.lower().replace("_", "-")] == []
    assert "{build}" in rows["wheels"]
