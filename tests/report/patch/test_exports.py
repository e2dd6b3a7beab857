"""Lines of a script that change their value, or make room for another variable."""

from __future__ import annotations

import pytest

from unhang.program.syntax.source_text import SourceText
from unhang.report.edits.settings import set_variables

CARDS = "#!/bin/bash\n# CUDA_VISIBLE_DEVICES: ours\nexport CUDA_VISIBLE_DEVICES=6,7,8,9\ntorchrun train.py\n"


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_a_value_is_changed_and_a_variable_added_beside_it(quote: str) -> None:
    script = SourceText(CARDS.replace("6,7,8,9", f"{quote}6,7,8,9{quote}").encode())
    wanted = {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    made = script.with_replaced(set_variables(script, {"CUDA_VISIBLE_DEVICES": 3}, wanted))

    assert made is not None
    order, cards = "export CUDA_DEVICE_ORDER=PCI_BUS_ID", "export CUDA_VISIBLE_DEVICES=4,5,6,7"
    assert made.text == CARDS.replace("export CUDA_VISIBLE_DEVICES=6,7,8,9", f"{order}\n{cards}")


@pytest.mark.parametrize(
    "line",
    [
        "docker run -e NCCL_NET=IB image torchrun train.py",
        "srun --export=ALL,NCCL_NET=IB torchrun train.py",
        "NCCL_NET=IB",
        "NCCL_NET=$(cat net)",
        "export NCCL_NET=IB && torchrun train.py",
    ],
)
def test_a_word_that_other_words_need_is_not_taken_out(line: str) -> None:
    assert set_variables(SourceText(f"{line}\n".encode()), {"NCCL_NET": 1}, {"NCCL_NET": None}) == ()


def test_a_line_that_is_no_longer_there_is_none() -> None:
    assert set_variables(SourceText(b"torchrun train.py\n"), {"NCCL_NET": 2}, {"NCCL_NET": None}) == ()
