"""The story that one line repairs: the patch is the same as the one its author made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.report.patch.patching import apply, look, only_of, summaries
from unhang_lab.stories.patch import apply_patch
from unhang_lab.stories.story import story_folder

COMMAND = "torchrun --standalone --nproc-per-node=2 finetuning.py"


def test_llama_recipes_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = story_folder("llama-recipes")
    ours, theirs = (Path(shutil.copytree(story, tmp_path / name)) for name in ("ours", "theirs"))
    apply_patch((story / "fixed.patch").read_text(), theirs)
    monkeypatch.chdir(ours)

    patch = only_of("has no seed", COMMAND)
    apply(patch, ours)

    assert "Safe to apply" in patch.text
    assert (ours / "custom_dataset.py").read_text() == (theirs / "custom_dataset.py").read_text()
    assert not any("has no seed" in summary for summary in summaries(look(COMMAND)[0]))
