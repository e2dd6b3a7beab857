"""The options in front of a command: of a wrapper such as ``srun``, or of a launcher such as ``torchrun``."""

from __future__ import annotations

from collections.abc import Sequence

from unhang.knowledge.job.launch_commands import CommandWrapper, LauncherCommand

Options = list[tuple[str, str]]


def read_options(row: CommandWrapper | LauncherCommand, words: Sequence[str]) -> tuple[Options, list[str]]:
    """The leading options of ``words`` with their values (``true``: it stands alone), and what follows them."""
    found: Options = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word, *rest = rest
        if word == "--":
            break
        name, sign, value = word.partition("=")
        if sign and (name.startswith("--") or isinstance(row, LauncherCommand)):
            found.append((name, value))
        elif isinstance(row, CommandWrapper) and word not in row.takes and row.takes_glued(word):
            found.append((word[:2], word[2:].removeprefix("=")))
        else:
            count = row.values(word)
            found.append((word, " ".join(rest[:count]) or "true"))
            rest = rest[count:]
    return found, rest


def unwrap(row: CommandWrapper, words: Sequence[str]) -> tuple[Options, list[str]]:
    """The options of the wrapper that ``words`` begin with, and its own further words and the command behind them."""
    _, *rest = words
    if row.ends:
        return [], rest[rest.index(row.ends) + 1 :] if row.ends in rest else []
    return read_options(row, rest[1:] if rest[:1] and rest[0] in row.verbs else rest)


def plain_name(option: str) -> str:
    """``--nproc-per-node`` as ``nproc_per_node``."""
    return option.lstrip("-").replace("-", "_")
