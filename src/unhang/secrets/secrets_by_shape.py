"""Secrets that show by their letters: those with a known beginning, and words that only chance can have written.

A word that looks like chance in hexadecimal may be a commit, a checksum or an address, and one that is a little odd may
be somebody's name for a thing: they are secrets only behind a name that says so (``wandb: using key …``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from unhang.late_pattern import late_pattern
from unhang.secrets.letter_statistics import randomness_bits
from unhang.secrets.line_filter import HintedLines
from unhang.secrets.secret_patterns import hints_of, secret_services, secret_shape_pattern, service_names

MIN_LENGTH = 14
_LONGEST = 4096
_BEFORE = 72
"""So many letters before a word may name it."""
_BESIDE = 36
"""In so many letters before a word the name of a service is about it."""
_WORD = late_pattern(rf"[A-Za-z0-9+/_.~%!$-]{{{MIN_LENGTH},}}={{0,3}}")
_NUMBER = late_pattern(r"[\d./%+-]+(?:[eE][+-]?\d+)?[A-Za-z]{0,4}")
_DIGIT = late_pattern(r"\d")
_RUN = late_pattern(r"[A-Za-z0-9]+")
_PIECE = late_pattern(r"(?:(?<=\.)|(?<![A-Za-z0-9_/-]))[A-Za-z0-9_-]{32,}(?![A-Za-z0-9_/-])")
"""As base64 for URLs writes it: - and _ are letters, too."""
_UUID = late_pattern(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_CHECKSUM = late_pattern(rf"(?<![A-Za-z0-9])(?:{_UUID.pattern}|[0-9a-f]{{32,64}})(?![A-Za-z0-9])")
_JOINED = str.maketrans("", "", "-_")
_PART = 28
"""Chance may fill a part of a word only."""
_BITS = 10.0
"""So surely chance, and not a person, wrote a word of 16 letters and digits: no word of torch's, transformers' and our
own sources and logs has more than four."""
_BITS_DASHED = 20.0
_BITS_NAMED = 3.0
"""Behind a name that says that it is a secret, little is needed."""
_BITS_OF_LETTERS = 8.0
"""A name without a digit is likelier a person's."""
_DASHED = late_pattern(r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)+-*")
_HEX = late_pattern(r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)")
_BASE64 = late_pattern(r"[A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9_-]{40,}={0,2}")
_MANGLED = late_pattern(r"_*Z[A-Z]?[0-9A-Z]")
"""C++ names as the linker knows them: capitals and numbers all over."""
_OWN_NAME = late_pattern(
    r"(?:[A-Za-z0-9]{1,20}[_-])?(?:key|pat|sdk|sk|token|secret|apikey|api|live|production)[_-](?:[a-z0-9]{2,4}-)?(.+)"
)
_BEHIND_PREFIX = late_pattern(r"[A-Za-z][\w.-]{1,24}?[_./-](?=[0-9]*[a-f])[0-9a-f]{30,64}(?:_[0-9a-f]{6,40})?")
_OF_CHECKSUMS = late_pattern(
    r"sha|md5|crc|hash|digest|commit|rev|git|blob|snapshot|cache|graph|kernel|model|data|run|job|comm|ckpt|checkpoint"
    r"|file|trace|image|layer|docker|container|pod|node|host|gpu|id|lib|tmp|uid|part|shard",
    re.IGNORECASE,
)
"""What is called by a checksum of itself."""
_OWN_SHAPES = late_pattern(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|gl[a-z]{1,5}-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|(?:LTAI|AKID)[A-Za-z0-9]{12,}"
    r"|xox[a-z]-[\w-]{10,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+|ya29\.[\w-]{10,}"
    r"|\$(?:apr1|[1256y]|2[aby])\$[\w./$]{20,})"
)
"""Of services in the rules, too, whose lengths the rules have too narrow for us."""
_OWN_HINTS = (
    *("hf_", "api_org_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-"),
    *("akia", "asia", "ltai", "akid", "xox", "aiza", "eyj", "ya29.", "$apr1$", "$1$", "$2", "$5$", "$6$", "$y$"),
)
_NAMED = (
    r"(?:key|auth|pat|cred|creds|credential|credentials|login|secret|token|authtoken|sid|licen[cs]e|webhook|dsn|code"
    r"|password|passwd|密码|密钥|令牌|口令)"
)
_BEGINS = r"(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))"
_NAMING = late_pattern(
    rf"{_BEGINS}(?i:{_NAMED})[\"'\\]{{0,3}}\s{{0,2}}(?:=|:|=>|:=|>|,|is|was|：|＝|是|为)?[\s\"'\\]{{0,4}}$"
    r"|\s(?:-[pkt]|--pat)\s{1,3}$"
    rf"|{_BEGINS}(?i:login|authtoken)\s[^|;&\n]{{0,60}}\s$"
)
_ASSIGNING = late_pattern(r"[ \t\w.-]{0,20}[\s'\"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,|\s)[`'\"\s=]{0,5}")


class _Likelihood(Enum):
    """How a word looks."""

    PLAIN = "plain"
    SURE = "sure"
    IF_NAMED = "if named"


def hints() -> tuple[str, ...]:
    """Literals, in lower case, that tell the lines worth a pattern."""
    return (*_OWN_HINTS, *hints_of("shape"), *hints_of("near"))


def secret_words(text: str, lines: HintedLines) -> Iterator[tuple[int, int]]:
    """Where in ``text`` words stand that are secrets; ``lines``: its lines, with :func:`hints`."""
    for match in _WORD.finditer(text):
        look = _classify(match[0] if len(match[0]) <= _LONGEST else match[0][:_LONGEST])
        if look is _Likelihood.SURE or (look is _Likelihood.IF_NAMED and _is_named(_before(text, match.start()))):
            yield match.span()
    for at, line in lines.with_any(_OWN_HINTS):
        yield from ((at + match.start(), at + match.end()) for match in _OWN_SHAPES.finditer(line))
    for at, line in lines.with_any(hints_of("shape")):
        yield from ((at + match.start(), at + match.end()) for match in secret_shape_pattern().finditer(line))
    for at, line in lines.with_any(hints_of("near")):
        yield from ((at + start, at + end) for start, end in _of_services(line))


def _before(text: str, at: int) -> str:
    """What stands before a word on its line."""
    return text[max(0, at - _BEFORE) : at].rpartition("\n")[2]


def _is_named(before: str) -> bool:
    """Whether what stands before a word says that it is a secret: a name for one, or of somebody who gives them out."""
    if _NAMING.search(before):
        return True
    for word in reversed(_RUN.findall(before[-_BESIDE:].lower())):
        if word in service_names():
            return True
        if _OF_CHECKSUMS.match(word):
            return False
    return False


def _of_services(line: str) -> Iterator[tuple[int, int]]:
    """Words behind the name of a service whose keys look so."""
    named = [(match.end(), one.secret) for one in secret_services() for match in one.named.finditer(line)]
    for match in _WORD.finditer(line) if named else ():
        looks = [secret for end, secret in named if _ASSIGNING.fullmatch(line, end, max(end, match.start()))]
        if looks and (_classify(match[0]) is _Likelihood.IF_NAMED or any(one.fullmatch(match[0]) for one in looks)):
            yield match.span()


@lru_cache(maxsize=1 << 14)
def _classify(word: str) -> _Likelihood:
    if _NUMBER.fullmatch(word):
        return _Likelihood.PLAIN
    if _is_hex(word):
        return _Likelihood.IF_NAMED
    if _tells_itself(word) or _is_random_text(word):
        return _Likelihood.SURE
    return _Likelihood.IF_NAMED if randomness_bits(word) > _least_bits(word) else _Likelihood.PLAIN


def _least_bits(word: str) -> float:
    return _BITS_NAMED if _DIGIT.search(word) else _BITS_OF_LETTERS


def _tells_itself(word: str) -> bool:
    """``key-…``, ``sdk-<uuid>``: the name is part of the word."""
    if _BEHIND_PREFIX.fullmatch(word) and not _OF_CHECKSUMS.search(word):
        return True
    named = _OWN_NAME.match(word)
    return named is not None and (_is_hex(named[1]) or (len(named[1]) >= 24 and named[1].isalnum()))


def _is_hex(word: str) -> bool:
    word = word.rstrip(".")
    return _UUID.fullmatch(word) is not None or (len(word) >= 16 and _HEX.fullmatch(word) is not None)


def _is_random_text(word: str) -> bool:
    """Whether only chance writes such a word: capitals, small letters and digits change too often for any name."""
    if _MANGLED.match(word):
        return False
    word = _CHECKSUM.sub("", word)  # of a card, an image, a commit: a name before it does not make it a secret
    if _BASE64.fullmatch(word) and "/" not in word[:1] and _changes(word) > 0.32 and _is_wide(word, 4.2):
        return True
    if any(_is_random_run(piece.translate(_JOINED), in_path=True) for piece in _PIECE.findall(word)):
        return True
    in_path = "/" in word
    if not in_path and _is_random_dashed(word):
        return True
    return any(_is_random_run(run, in_path=in_path) for run in _RUN.findall(word) if len(run) >= 16)


def _is_random_dashed(word: str) -> bool:
    """``q-55meisbpklp3gam-xkrgftoyt8itit``: what stands between dashes is too short to tell alone."""
    for dashed in _DASHED.findall(word):
        runs = [run for run in _RUN.findall(dashed) if not _HEX.fullmatch(run)]
        if sum(map(len, runs)) >= 20 and _DIGIT.search(dashed) and randomness_bits("-".join(runs)) > _BITS_DASHED:
            return True
    return False


def _is_random_run(run: str, *, in_path: bool) -> bool:
    """Compilers name files in their caches by checksums in small letters and digits, or in capitals and digits."""
    if _HEX.fullmatch(run):
        return False
    if not _DIGIT.search(run):
        return is_random(run) and randomness_bits(run) > _BITS
    if not (run.islower() or run.isupper()):
        parts = [run[at : at + _PART] for at in range(0, max(1, len(run) - _PART + 1), _PART // 2)]
        if len(run) >= 18 and randomness_bits(run) > 0 and any(_changes(part) > 0.28 for part in parts):
            return True
    return not in_path and randomness_bits(run) > _BITS


def is_random(word: str) -> bool:
    """Whether capitals and small letters stand side by side in ``word`` as only chance puts them."""
    turns = sum(one.isupper() != other.isupper() for one, other in pairwise(word))
    return len(word) >= 16 and turns > 0.38 * len(word) and _is_wide(word, 3.3)


def _changes(word: str) -> float:
    """How often neighbours are of another kind, of all neighbours; a capital begins a word, which is no change."""
    kinds = [letter.isdigit() + 2 * letter.isupper() + 4 * letter.islower() for letter in word.rstrip("=")]
    changes = sum(one != other and (one, other) != (2, 4) for one, other in pairwise(kinds))
    return changes / max(1, len(kinds) - 1)


def _is_wide(word: str, bits: float) -> bool:
    """Whether the letters of ``word`` are spread over so many bits a letter (Shannon's entropy)."""
    counts = Counter(word)
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values()) >= bits
