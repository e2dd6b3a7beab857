"""Where a process stands in its engine, as its name tells, and which rank of the engine's world that is.

vLLM calls workers ``Worker_DP1_PP0_TP0_EP4`` (v1/executor/multiproc_executor.py), SGLang its schedulers ``DP1 TP0``
(srt/managers/scheduler.py); each names a dimension only where the engine has more than one place in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce

from unhang.knowledge.numbers import rank
from unhang.late_pattern import late_pattern

_PLACE = late_pattern(r"(?:(?<![A-Za-z])|(?<=_))((?:ATTN_|MOE_)?[PD]?(?:DP|PP|TP|EP|CP))(\d{1,5})(?!\d)")
_WORKER = late_pattern(
    r"(?:\w*[Ww]orker\w*?|\w*scheduler\w*?)?[_ ]?(?:(?:ATTN_|MOE_)?[PD]?(?:DP|PP|TP|EP|CP)\d{1,5}[_ ]?)+"
)
_OF_VLLM, _OF_SGLANG = ("DP", "PP", "PCP", "TP"), ("PP", "TP")
"""From the slowest to the fastest in which ranks are numbered (vllm/distributed/parallel_state.py; SGLang's replicas
have a world each, or share its ``TP`` where attention alone is data-parallel: layers/dp_attention.py)."""
_MAX_PLACES = 65_536


class ParallelPlaces:
    """Learns the places that one log names; then tells ranks."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._seen: set[str] = set()

    def __bool__(self) -> bool:
        """Whether a worker spoke."""
        return bool(self._sizes)

    def add(self, program: str) -> None:
        """A line of ``program`` was read."""
        if program in self._seen or len(self._seen) >= _MAX_PLACES:
            return
        self._seen.add(program)
        for name, number in place_of(program).items():
            self._sizes[name] = max(self._sizes.get(name, 0), number + 1)

    def rank_of(self, program: str) -> int | None:
        """The rank of ``program`` in its engine's world; None where it is no worker, or the size of a dimension is not
        known: no line of another place in it was read."""
        place = place_of(program)
        if not place:
            return None
        of_vllm = "orker" in program
        if of_vllm and "EP" in place and "PP" not in place:
            return place["EP"]  # experts are spread over all of them
        named = [name for name in (_OF_VLLM if of_vllm else _OF_SGLANG) if name in place]
        if not named or any(self._sizes.get(name, 0) < 2 for name in named[1:]):
            return None
        return reduce(lambda before, name: before * self._sizes.get(name, 0) + place[name], named, 0)


@lru_cache(maxsize=65_536)
def place_of(program: str) -> Mapping[str, int]:
    """``{"DP": 1, "TP": 0}`` of ``Worker_DP1_TP0``; empty for what is no worker (``EngineCore_DP1``)."""
    if _WORKER.fullmatch(program.strip()) is None:
        return {}
    return {name: place for name, number in _PLACE.findall(program) if (place := rank(number)) is not None}
