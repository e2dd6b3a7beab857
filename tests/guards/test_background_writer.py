"""What is logged is written later, in order, as it was; training waits for none of it."""

from __future__ import annotations

import csv
import math
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guards.kept_writer import LIMIT_S, Kept, run_python, values_of
from tests.waiting import wait_for
from tests.work import calls_of
from unhang.errors import UsageError
from unhang.guards import background_writer
from unhang.guards.background_writer import BackgroundWriter

torch = pytest.importorskip("torch")


@pytest.fixture
def kept() -> Iterator[Kept]:
    writer = Kept()
    yield writer
    writer.held.set()


def test_tensorboard_gets_every_event_as_it_was(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    before = time.time()
    loss, weights = torch.zeros(()), torch.zeros(8)
    with BackgroundWriter(SummaryWriter(str(tmp_path))) as writer:
        assert writer.get_logdir() == str(tmp_path)
        for step in range(300):
            loss += 1
            weights += 1
            writer.add_scalar("loss", loss, step)
            writer.add_histogram("weights", weights, step)
        weights.fill_(-1e9)
        logged = time.time()

    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0, "histograms": 0}).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(step, step + 1) for step in range(300)]
    assert all(before <= e.wall_time <= logged for e in events.Scalars("loss"))
    assert [h.histogram_value.max for h in events.Histograms("weights")] == [step + 1 for step in range(300)]


def test_wandb_gets_every_value_without_a_network(tmp_path: Path) -> None:
    run_python(
        """
        import sys, torch, wandb
        from unhang.guards.background_writer import BackgroundWriter

        run = wandb.init(mode="offline", dir=sys.argv[1], settings=wandb.Settings(console="off", silent=True))
        writer, loss = BackgroundWriter(run), torch.zeros(())
        for step in range(40):
            loss += 1
            writer.log({"loss": loss}, step=step)
        writer.finish()
        """,
        str(tmp_path),
    )

    assert list(wandb_losses(next(tmp_path.glob("wandb/offline-run-*/*.wandb")))) == [f"{n + 1}" for n in range(40)]


def wandb_losses(file: Path) -> Iterator[str]:
    """``loss`` of every history record of a W&B file (LevelDB's log format)."""
    from wandb.proto import wandb_internal_pb2

    data, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            read = wandb_internal_pb2.Record()
            read.ParseFromString(record)
            record = b""
            for item in read.history.item:
                if (item.key or "/".join(item.nested_key)) == "loss":
                    yield str(int(float(item.value_json)))


def test_a_csv_writer_and_a_function_are_written_in_order(tmp_path: Path) -> None:
    said: list[int] = []
    with (tmp_path / "log.csv").open("w+", newline="") as file:
        table, call = BackgroundWriter(csv.writer(file), flush=file.flush), BackgroundWriter(said.append)
        row = [0, "a"]
        for number in range(50):
            row[0] = number
            table.writerow(row)
            call(number)
        assert table.close(LIMIT_S)
        assert call.drain(LIMIT_S)
        assert (tmp_path / "log.csv").read_text().splitlines() == [f"{number},a" for number in range(50)]
    assert said == list(range(50))


def test_later_changes_do_not_show(kept: Kept) -> None:
    writer, array, nested = BackgroundWriter(kept), torch.ones(3), {"a": [torch.ones(2)]}
    kept.held.clear()
    writer.add_scalar("x", array, 1)
    writer.log(nested)
    array.zero_()
    nested["a"][0].zero_()
    nested["b"] = []
    kept.held.set()
    assert writer.drain(LIMIT_S)

    assert kept.calls[0][1].tolist() == [1, 1, 1]
    assert kept.calls[1][0]["a"][0].tolist() == [1, 1]
    assert list(kept.calls[1][0]) == ["a"]


def test_gradients_are_not_kept_alive(kept: Kept) -> None:
    writer, loss = BackgroundWriter(kept), (torch.ones(2, requires_grad=True) * 2).sum()
    writer.log({"loss": loss, "logits": torch.ones(2, requires_grad=True) * 3})
    assert writer.drain(LIMIT_S)

    assert kept.calls[0][0]["loss"] == 4.0
    assert not kept.calls[0][0]["logits"].requires_grad


def test_storage_that_does_not_answer_slows_no_step_and_is_said_once(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = BackgroundWriter(kept, max_pending=100, behind_after_s=0.3)
    kept.held.clear()
    began = time.monotonic()
    for step in range(600):
        writer.add_scalar("loss", float(step), step)  # storage is held for as long as the test wants
        time.sleep(0.001)

    printed = capsys.readouterr().err
    assert len(writer._waiting) <= 101
    took_s = time.monotonic() - began
    assert 1 <= printed.count("s behind") <= 1 + max(0.0, math.log(took_s / 0.3, background_writer.REPEAT_FACTOR))
    assert "the log of Kept is " in printed
    kept.held.set()
    assert writer.close(LIMIT_S)
    assert values_of(kept)[-1] == 599.0
    assert values_of(kept) == sorted(set(values_of(kept)))
    assert writer.left_out == 600 - len(kept.calls)
    assert f"{writer.left_out} values were skipped" in capsys.readouterr().err


def test_a_curve_may_keep_only_its_newest_value(kept: Kept) -> None:
    writer = BackgroundWriter(kept, newest_only="debug/*")
    kept.held.clear()
    writer.add_scalar("first", 0.0)
    wait_for(lambda: len(writer._waiting) == 0)
    for step in range(50):
        writer.add_scalar("debug/norm", float(step), step)
        writer.add_scalar("loss", float(step), step)
    kept.held.set()
    assert writer.close(LIMIT_S)

    assert [value for tag, value, *_ in kept.calls if tag == "debug/norm"] == [49.0]
    assert [value for tag, value, *_ in kept.calls if tag == "loss"] == [float(step) for step in range(50)]


def test_a_writer_that_fails_is_said_once_and_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(value: int) -> None:
        if value != 7:
            raise OSError(28, "No space left on device")

    writer = BackgroundWriter(broken)
    for value in range(20):
        writer(value)
    assert writer.close(LIMIT_S)

    printed = capsys.readouterr().err
    assert printed.count("(shown once)") == 1
    assert "19 calls failed, first with OSError: [Errno 28] No space left on device" in printed
    assert "the log of broken fails: OSError" in printed
    assert writer.failed == 19


def test_closing_waits_no_longer_than_told(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    writer = BackgroundWriter(kept)
    kept.held.clear()
    for step in range(5):
        writer.add_scalar("loss", float(step), step)

    assert not writer.close(0.4)

    assert "were not written within 0.4 s" in capsys.readouterr().err
    writer.add_scalar("loss", 1.0)
    assert writer.close() is True


def test_when_time_gets_short_the_last_values_come_first() -> None:
    written: list[tuple[str, int]] = []

    class Slow:
        def add_scalar(self, tag: str, value: int) -> None:
            time.sleep(0.02)
            written.append((tag, value))

    writer = BackgroundWriter(Slow())
    for value in range(400):
        writer.add_scalar("loss", value)
        writer.add_scalar("lr", value)
    assert writer.close(3.0)

    assert written[-2:] == [("loss", 399), ("lr", 399)]
    assert len(written) < 200


class Uploads:
    """Each flush is an upload: a TensorBoard writer on an object store."""

    def __init__(self, call_s: float = 0.0, flush_s: float = 0.0) -> None:
        self.call_s, self.flush_s = call_s, flush_s
        self.values: list[int] = []
        self.uploaded: list[int] = []

    def add_scalar(self, tag: str, value: int) -> None:
        time.sleep(self.call_s)
        self.values.append(value)

    def flush(self) -> None:
        time.sleep(self.flush_s)
        self.uploaded.append(len(self.values))

    def close(self) -> None:
        self.flush()


def test_flushes_that_wait_are_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    storage = Uploads(flush_s=0.3)
    writer = BackgroundWriter(storage)
    for value in range(500):
        writer.add_scalar("loss", value)
        writer.flush()

    assert writer.close(LIMIT_S)

    assert len(storage.uploaded) < 50  # and not 500
    assert storage.values == list(range(500))
    assert storage.uploaded[-1] == 500
    assert capsys.readouterr().err == ""


def test_a_flush_is_made_though_nothing_is_logged_after_it() -> None:
    storage = Uploads()
    writer = BackgroundWriter(storage, flush_every_s=1000)
    writer.add_scalar("loss", 1)
    writer.flush()

    wait_for(lambda: storage.uploaded == [1])
    writer.flush()
    wait_for(lambda: storage.uploaded == [1, 1])
    writer.close(LIMIT_S)


def test_nothing_is_left_out_at_the_end_while_storage_answers_in_time() -> None:
    storage = Uploads(call_s=0.1)
    writer = BackgroundWriter(storage)
    for value in range(31):
        writer.add_scalar("loss", value)

    assert writer.close(6.0)  # more than half of it is needed

    assert storage.values == list(range(31))
    assert writer.left_out == 0


def test_closing_closes_the_writer_once_and_flushes(kept: Kept) -> None:
    writer = BackgroundWriter(kept)
    writer.flush()
    writer.add_scalar("a", 1.0)

    assert writer.close(LIMIT_S)
    assert writer.close(LIMIT_S)

    assert kept.closed == 1
    assert kept.flushed >= 2


def test_what_does_not_write_goes_straight_to_the_writer(kept: Kept) -> None:
    writer = BackgroundWriter(kept)

    assert writer.get_logdir() == "/logs"
    assert writer.calls is kept.calls
    with pytest.raises(AttributeError):
        _ = writer.nothing_of_this_name


@pytest.mark.parametrize("bad", [{"max_pending": 0}, {"max_bytes": -1}, {"behind_after_s": 0}])
def test_bounds_that_are_none_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        BackgroundWriter(print, **bad)  # type: ignore[arg-type]


def test_a_call_costs_the_training_thread_little(kept: Kept) -> None:
    """How many microseconds, `python -m benchmarks guards` measures."""
    writer, loss = BackgroundWriter(kept, max_pending=10**6), torch.ones(())
    kept.held.clear()
    writer.add_scalar("loss", loss, 1)

    assert calls_of(lambda: writer.add_scalar("loss", loss, 1)) < 60
    kept.held.set()
    assert writer.close(LIMIT_S)
