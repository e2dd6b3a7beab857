"""What a program demands of releases before it does anything, against what is installed; and where nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.environment.projects import ask, environment, project

MAIN = "def main():\n    check_min_version('4.57.0.dev0')\n\n\nif __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        ({"timm": "0.4.12"}, "import timm\nassert timm.__version__ == '0.3.2'\n"),
        ({"timm": "0.4.12"}, "from timm import __version__ as v\nassert v in ['0.3.2', '0.3.3'], v\n"),
        ({"timm": "0.10.1"}, "import timm\nassert timm.__version__ >= '0.3.2'  # as texts\n"),
        ({"torch": "1.13.1+cu117"}, "import torch\nassert torch.__version__ >= '2.0'\n"),
        ({"torch": "1.13.1"}, "import torch as t\nif not t.__version__.startswith('2.'):\n    raise RuntimeError\n"),
        (
            {"mmcv": "2.2.0"},
            "import mmcv\nfrom packaging import version as V\nassert V.parse(mmcv.__version__) < V.parse('2.1')\n",
        ),
        ({"xf": "0.1"}, "from importlib.metadata import version\nif version('xf') != '0.2':\n    exit(1)\n"),
        ({"transformers": "4.56.2"}, "from transformers.utils import check_min_version\ncheck_min_version('4.57.0')\n"),
        ({"transformers": "4.56.2"}, "from transformers.utils import check_min_version\n" + MAIN),
        (
            {"datasets": "1.7"},
            "from transformers.utils.versions import require_version\nrequire_version('datasets>=1.8', 'pip')\n",
        ),
    ],
)
def test_a_check_that_fails_ends_the_job(packages: dict[str, str], text: str, tmp_path: Path) -> None:
    project(tmp_path, {"train.py": "import model\n", "model.py": text})
    if "__main__" in text:
        project(tmp_path, {"train.py": text})

    findings = ask(tmp_path, venv=environment(tmp_path, **packages))[1].findings

    (found,) = [one for one in findings if one.cause == "rank-crashed"]
    assert next(iter(packages.values())) in str(found.summary)


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        ({"timm": "0.3.2"}, "import timm\nassert timm.__version__ == '0.3.2'\n"),
        ({"torch": "2.1.0"}, "import torch\nassert torch.__version__ == '2.1.0+cu121'\n"),
        ({"torch": "2.10.0"}, "import torch\nassert torch.__version__ >= '2.9'\n"),
        (
            {"timm": "0.4.12"},
            "import timm\ntry:\n    assert timm.__version__ == '0.3.2'\nexcept AssertionError:\n    pass\n",
        ),
        ({"timm": "0.4.12"}, "import timm\ndef old():\n    assert timm.__version__ == '0.3.2'\n"),
        ({"timm": "0.4.12"}, "import timm\nif old:\n    assert timm.__version__ == '0.3.2'\n"),
        ({"timm": "0.4.12"}, "import timm\nif timm.__version__ != '0.3.2':\n    print('untested')\n"),
        ({}, "import timm\nassert timm.__version__ == '0.3.2'\n"),
        (
            {"transformers": "4.57.0"},
            "from transformers.utils import check_min_version\ncheck_min_version('4.57.0.dev0')\n",
        ),
    ],
)
def test_what_passes_is_caught_or_not_run_in_any_case_ends_nothing(
    packages: dict[str, str], text: str, tmp_path: Path
) -> None:
    project(tmp_path, {"train.py": "import model\n", "model.py": text})

    verdict = ask(tmp_path, venv=environment(tmp_path, **packages))[1]

    assert not [one for one in verdict.findings if one.cause == "rank-crashed"]
