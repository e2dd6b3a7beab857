"""Which signals the command runner takes in place of its command, and what they say about the command's end."""

from __future__ import annotations

import os
import signal

_OURS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)
CAUGHT = frozenset(number for number in signal.valid_signals() if number not in _OURS)
"""All but those nobody can take; SIGCHLD is about our children."""
AWAITED = CAUGHT | {signal.SIGCHLD}
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""After these the command ends because somebody wants it to."""
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""Job control: the command stops, and we with it, so that the shell sees its job stop."""
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS)
_FROM_KERNEL = 0x80


def block_all() -> set[int]:
    """Block them all: they wait until they are asked for. Returns what the command is to block, as we found it."""
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)}


def is_our_own(told: signal.struct_siginfo) -> bool:
    """A signal about something we did ourselves: a pipe of ours broke."""
    return told.si_signo in (signal.SIGPIPE, signal.SIGXFSZ) and told.si_pid == os.getpid()


def is_from_terminal(told: signal.struct_siginfo) -> bool:
    """Sent by the kernel, mostly to a whole group."""
    return told.si_code == _FROM_KERNEL


def is_ignored(number: int) -> bool:
    """Ignored since before us (nohup): the command ignores it too."""
    return signal.getsignal(number) == signal.SIG_IGN


def stop_self(number: int) -> None:
    """Stop, by the signal that stopped the command; returns when we are told to go on."""
    if number in STOPPING:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    else:
        os.kill(os.getpid(), signal.SIGSTOP)
