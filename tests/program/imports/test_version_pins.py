"""Releases a project asks for: which files say so, which of several counts, and where the answer says it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.environment.projects import ask, environment, project

SETUP = (
    "from setuptools import setup\n_deps = [\n    'trl==0.16.0',\n    # 'trl==0.1',\n]\nsetup(install_requires=_deps)\n"
)
SAYINGS = {
    "requirements": ({"requirements.txt": "# all\ntrl==0.16.0  # pinned\n"}, "requirements.txt line 2"),
    "requirements of others": (
        {"requirements-train.txt": "-r base/pins.txt\n", "base/pins.txt": "\ntrl[vllm]==0.16.0\n"},
        "base/pins.txt line 2",
    ),
    "setup.py": ({"setup.py": SETUP}, "setup.py line 3"),
    "setup.cfg": ({"setup.cfg": "[options]\ninstall_requires =\n    numpy\n    trl==0.16.0\n"}, "setup.cfg line 4"),
    "pyproject": (
        {"pyproject.toml": '[project]\nname = "p"\ndependencies = [\n  "trl==0.16.0",\n]\n'},
        "pyproject.toml line 4",
    ),
    "an extra alone": (
        {"pyproject.toml": '[project]\nname = "p"\n[project.optional-dependencies]\nrl = ["trl==0.16.0"]\n'},
        "pyproject.toml line 4",
    ),
    "poetry": (
        {"pyproject.toml": '[tool.poetry.dependencies]\ntrl = "0.16.0"\n'},
        "pyproject.toml line 2",
    ),
    "conda": (
        {"environment.yml": "dependencies:\n  - python=3.11\n  - conda-forge::trl=0.16.0=py_0\n"},
        "environment.yml line 3",
    ),
    "pip in conda": (
        {"environment.yaml": "dependencies:\n  - pip\n  - pip:\n    - trl==0.16.0\n"},
        "environment.yaml line 4",
    ),
    "a script": (
        {"setup.sh": "#!/bin/bash\ncd x && pip install -q wandb 'trl==0.16.0' # pip install trl==0.1\n"},
        "setup.sh line 2",
    ),
    "a container": (
        {"Dockerfile": "FROM x\nRUN python -m pip install \\\n    numpy \\\n    trl==0.16.0 && rm -r /tmp/x\n"},
        "Dockerfile line 2",
    ),
    "a script after what is declared": (
        {"setup.sh": "pip install -e .\npip install trl==0.16.0\n", "setup.py": SETUP.replace("0.16.0", "0.15.2")},
        "setup.sh line 2",
    ),
    "one marker of two": (
        {"requirements.txt": "trl==0.1;python_version<'3.0'\ntrl==0.16.0;python_version>='3.0'\n"},
        "requirements.txt line 2",
    ),
}


@pytest.mark.parametrize(("files", "place"), SAYINGS.values(), ids=SAYINGS)
def test_what_is_pinned_counts_where_nothing_is_installed_and_says_where(
    files: dict[str, str], place: str, tmp_path: Path
) -> None:
    project(tmp_path, files)

    versions, verdict = ask(tmp_path)

    assert versions.of["trl"] == "0.16.0"
    (finding,) = [one for one in verdict.findings if one.subject == "trl"]
    assert f"(pinned in {place}, not installed here)" in str(finding.summary)


def test_what_is_installed_for_the_interpreter_that_would_run_counts_before_a_pin(tmp_path: Path) -> None:
    project(tmp_path, {"requirements.txt": "trl==0.16.0\naccelerate==1.2.1\n"})

    versions, verdict = ask(tmp_path, venv=environment(tmp_path, trl="0.15.2"))

    assert versions.of["trl"] == "0.15.2"
    assert versions.of["accelerate"] == "1.2.1"
    assert "transformers" not in versions.of, "what lies beside unhang is not what the job would run with"
    assert not [one for one in verdict.findings if one.subject == "trl"]


def test_several_releases_are_a_gap_where_one_of_them_is_known_to_hang(tmp_path: Path) -> None:
    project(
        tmp_path,
        {"requirements.txt": "deepspeed>=0.10.0,<=0.16.2\ntransformers>=4.41,<=4.49.0\naccelerate>=1.0,<1.5\n"},
    )

    _, verdict = ask(tmp_path)

    told = {str(gap.what): str(gap.because) for gap in verdict.not_checked}
    (because,) = [why for what, why in told.items() if "DeepSpeed" in what]
    assert "requirements.txt:1 allows" in because
    assert ">=0.10.0" in because
    assert not any("transformers" in what or "accelerate" in what for what in told)


def test_a_release_of_an_extra_does_not_decide_where_another_extra_allows_more(tmp_path: Path) -> None:
    extras = "{'torch': ['torch>=1.13.1'], 'npu': ['torch==2.7.0']}"
    project(tmp_path, {"setup.py": f"from setuptools import setup\nsetup(extras_require={extras})\n"})

    versions, verdict = ask(tmp_path)

    assert "torch" not in versions.of
    assert "setup.py:2 allows >=1.13.1" in str(verdict.not_checked[0].because)


def test_pins_are_found_where_the_script_lies_and_where_the_command_is_given(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "run.sh": "cd inner/pkg\npython src/t.py\n",
            "setup.sh": "pip install accelerate==1.2.1\n",
            "inner/setup.py": SETUP,
            "inner/pkg/src/t.py": "",
        },
    )

    versions, _ = ask(tmp_path, "bash run.sh")

    assert versions.of == {"trl": "0.16.0", "accelerate": "1.2.1"}
    assert str(versions.origin["trl"]) == "pinned in inner/setup.py line 3, not installed here"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "trl == == 1\n-r\n-r /nowhere.txt\n\x00"),
        ("requirements.txt", "-r requirements.txt\n"),
        ("setup.py", "def broken(:\n"),
        ("setup.cfg", "install_requires\n"),
        ("pyproject.toml", "[project]\ndependencies = 3\n[tool]\npoetry = 'x'\n"),
        ("environment.yml", "dependencies: {a: b}\n- ["),
        ("environment.yml", "- only\n- a list\n"),
        ("setup.sh", "pip install 'trl==0.16.0\n"),
    ],
)
def test_files_that_cannot_be_read_ask_for_nothing(name: str, text: str, tmp_path: Path) -> None:
    project(tmp_path, {name: text})

    versions, _ = ask(tmp_path)

    assert versions.of == {}
