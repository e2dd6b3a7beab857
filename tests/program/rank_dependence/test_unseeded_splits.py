"""A split has a seed where some file of the program seeds the generator it draws from, the same on every rank."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.rank_dependence.unseeded_splits import splits_without_seed

SPLIT = "dataset = dataset.train_test_split(test_size=0.1)[split]\n"
SHUFFLE = "import random\nrandom.shuffle(files)\n"


def found(*texts: str) -> list[tuple[str, str, tuple[str, ...]]]:
    files = [SourceFile(Source(f"{number}.py"), f"{number}.py", text) for number, text in enumerate(texts)]
    return [(split.why, split.draws_from, split.seeded) for _, split in splits_without_seed(files)]


@pytest.mark.parametrize(
    "seeding",
    [
        "np.random.seed(42)",
        "numpy.random.seed(config.seed)",
        "set_seed(42)",
        "lightning.seed_everything(42, workers=True)",
    ],
)
def test_a_seed_in_another_file_counts(seeding: str) -> None:
    assert found(SPLIT, seeding + "\n") == []


@pytest.mark.parametrize(
    ("seeding", "seeded"),
    [
        ("torch.manual_seed(42)\nrandom.seed(42)", ("python", "torch")),
        ("torch.cuda.manual_seed(42)", ()),
        ("generator = torch.Generator().manual_seed(42)", ()),
        ("def set_seed(seed):\n    random.seed(seed)\nset_seed(42)", ("python",)),
        ("np.random.seed()", ()),
    ],
)
def test_a_seed_of_another_generator_does_not_help(seeding: str, seeded: tuple[str, ...]) -> None:
    assert found(SPLIT, seeding + "\n") == [("no-seed", "numpy", seeded)]


def test_only_the_generator_that_is_seeded_with_the_rank_differs() -> None:
    by_rank = "rank = dist.get_rank()\nnp.random.seed(42 + rank)\nrandom.seed(42)\n"

    assert found(SPLIT, by_rank) == [("seed-differs", "numpy", ())]
    assert found(SHUFFLE, by_rank) == []


def test_a_file_that_cannot_be_parsed_is_left_out() -> None:
    assert found("def (", SPLIT) == [("no-seed", "numpy", ())]
