"""Steps that mostly wait for their data: as several programs print it, and at both sides of each bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.evidence.logs.lines.progress import find_data_wait
from unhang.facts.build import build_facts
from unhang.facts.pace.data_wait_share import MIN_STEPS, DataWaitShare, data_wait_share


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Train Epoch: 0 [  4096/28631 (0%)] Data (t): 38.702 Batch (t): 39.291, 104.2/s", (38.702, 39.291)),
        (
            "Train: 0 [ 50/1251 ( 4%)]  Loss: 6.9  Time: 0.613s, 417.52/s  Data: 0.005 (0.010)",
            (0.005, 0.613),
        ),
        ("Epoch(train) [1][10/500]  lr: 2e-02  eta: 1:02:03  time: 0.532  data_time: 0.211  loss: 2.1", (0.211, 0.532)),
        ("eta: 0:10:00  iter: 19  total_loss: 1.2  time: 0.3521  data_time: 0.0123  lr: 0.01", (0.0123, 0.3521)),
        ("Epoch: [0][ 10/5005]  Time  0.231 ( 0.531)  Data  0.003 ( 0.280)  Loss 6.9e+00", (0.003, 0.231)),
        ("step 12 loss 2.1 dt: 0.53", None),
        ("Epoch: [0][10/5005] metadata 1.5 time 3.5", None),
        ("step 3 data: 5.0 time: 1.0", None),  # nobody waits longer for data than the step takes
    ],
)
def test_the_two_times_of_a_step_are_read_from_its_line(line: str, told: tuple[float, float] | None) -> None:
    assert find_data_wait(line) == told


def pace_of(tmp_path: Path, waits: list[float], compute_s: float = 1.0) -> DataWaitShare | None:
    log = tmp_path / "train.log"
    lines = (f"Epoch: [0][{n}/5005] Time {w + compute_s:.3f} Data {w:.3f} Loss 6.9\n" for n, w in enumerate(waits, 1))
    log.write_text("".join(lines))
    return data_wait_share(build_facts(read_evidence([str(log)])))


def test_a_loader_whose_workers_read_at_once_is_seen(tmp_path: Path) -> None:
    pace = pace_of(tmp_path, [0.0, *(40.0 if n % 8 == 0 else 0.01 for n in range(40))])

    assert pace is not None
    assert (pace.waits, pace.every, pace.longest_s) == (5, 8, 40.0)
    assert pace.compute_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("waits", "seen"),
    [
        ([0.0] + [1.1] * MIN_STEPS, True),
        ([0.0] + [1.1] * (MIN_STEPS - 1), False),  # too few lines
        ([0.0] + [0.9] * 40, False),  # less than half of the time
        ([0.0] + [20.0] * 3 + [0.0] * 30, True),
        ([0.0] + [40.0] * 2 + [0.0] * 30, False),  # two waits may be an epoch's beginning
        ([900.0] + [0.0] * 40, False),  # the first one starts the workers
    ],
)
def test_the_bounds(waits: list[float], seen: bool, tmp_path: Path) -> None:
    assert (pace_of(tmp_path, waits) is not None) is seen
