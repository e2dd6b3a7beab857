"""What chance writes is told from what people call things by which letters follow which."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

import pytest

from unhang.secrets.letter_statistics import randomness_bits

CASES = Path(__file__).resolve().parents[1] / "cases"
SMALL = string.ascii_lowercase + string.digits


@pytest.mark.parametrize("letters", [SMALL, SMALL.upper(), string.ascii_letters + string.digits])
def test_words_of_chance_stand_out(letters: str) -> None:
    chance = random.Random(4)
    words = ["".join(chance.choices(letters, k=24)) for _ in range(1000)]

    assert sum(randomness_bits(word) > 10 for word in words) > 970


def test_words_of_logs_and_programs_do_not() -> None:
    text = "".join(
        path.read_text("utf-8", "replace")
        for path in sorted(CASES.rglob("input/**/*"))
        if path.suffix in (".log", ".txt", ".py") and path.is_file()
    )
    words = {word for word in re.findall(r"[A-Za-z0-9]{16,}", text) if not re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", word)}

    assert len(words) > 20
    assert [word for word in words if randomness_bits(word) > 4] == []


@pytest.mark.parametrize("word", ["Qwen2VLForConditionalGeneration", "bfloat16mixedprecision", "sm90xmmagemmbf16", ""])
def test_names_with_digits_are_names(word: str) -> None:
    assert randomness_bits(word) <= 4
