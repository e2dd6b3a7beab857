"""A stack that a running process outran is told from a whole one."""

from __future__ import annotations

from unhang.evidence.items import StackDump
from unhang.evidence.stacks import read_stacks
from unhang.evidence.stacks.torn_stacks import is_torn, is_torn_off, main_thread_depth

HEAD = 'Process 41: python train.py\nPython v3.11.7\n\nThread 41 (active): "MainThread"\n'
WHOLE = (
    "forward (/opt/torch/linear.py:134)",
    "generate (/opt/transformers/utils.py:7)",
    "<module> (/home/u/train.py:9)",
)


def stack(*frames: str) -> StackDump:
    return read_stacks((HEAD + "".join(f"    {one}\n" for one in frames)).encode(), source="rank_0.txt", rank=0)[0]


def test_a_stack_that_reaches_the_program_is_whole() -> None:
    assert not is_torn(stack(*WHOLE))
    assert main_thread_depth(stack(*WHOLE)) == 3


def test_one_that_ends_in_a_library_or_before_its_first_frame_is_torn() -> None:
    assert is_torn(stack(*WHOLE[:2]))
    assert is_torn(stack())
    assert main_thread_depth(stack()) == 0


def test_native_frames_below_the_program_do_not_make_it_torn() -> None:
    assert not is_torn(stack(*WHOLE, "__libc_start_main (libc.so.6)"))


def test_a_dump_of_a_stopped_process_is_never_torn() -> None:
    text = 'Thread 0x00007f (most recent call first):\n  File "/home/u/train.py", line 3 in step\n'

    assert not is_torn(read_stacks(text.encode(), source="rank_0.txt", rank=0)[0])


def test_what_an_earlier_look_shows_further_in_was_torn_off() -> None:
    assert is_torn_off(stack("forward (/opt/torch/linear.py:140)"), stack(*WHOLE))


def test_another_call_at_the_bottom_is_where_it_is_now() -> None:
    assert not is_torn_off(stack("_shutdown (/usr/lib/python3.11/threading.py:1560)"), stack(*WHOLE))
    assert not is_torn_off(stack(*WHOLE), stack(*WHOLE))
    assert not is_torn_off(stack(WHOLE[0]), stack(*WHOLE[:2]))
