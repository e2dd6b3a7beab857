"""Without its library an integration says what to install; nothing is loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = {
    "transformers": "transformers",
    "accelerate": "accelerate",
    "lightning": "lightning",
    "pytorch_lightning": "pytorch-lightning",
    "torchtitan": "torchtitan",
    "deepspeed": "deepspeed",
}


def test_the_package_itself_loads_nothing() -> None:
    heavy = ["torch", *LIBRARIES]
    code = f"import sys, unhang.integrations; print(sorted({set(heavy)!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.live
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_to_install_is_said(library: str) -> None:
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from unhang.errors import MissingExtra\n"
        f"try:\n    import unhang.integrations.{library}\n"
        "except MissingExtra as error:\n    print(error, '|', error.next_step)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    said, _, next_step = done.stdout.strip().partition(" | ")
    assert f"needs {library}" in said, done.stderr
    assert next_step == f"pip install {LIBRARIES[library]}"
