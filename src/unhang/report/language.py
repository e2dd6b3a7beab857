"""Say a sentence in the user's language: catalogues that map English templates to translations.

A catalogue is ``report/locale/<lang>.toml`` with a table of templates and one of the fixed words put into them::

    [texts]
    "Rank {rank} ended first" = "…"
    [words]
    "saving a checkpoint" = "…"

Sentences of rows stand in the row, in every language side by side (``knowledge/words.py``).
``report/locale/knowledge/<lang>.toml`` holds those of detectors' pages, ``errors/<lang>.toml`` those of errors.
Files ``report/locale/<lang>/*.toml`` of the same shape are parts of it: one for each large area.

English needs none. A catalogue is shipped only when it is complete; ``tests/report/test_language.py`` checks every
``say("…")`` of the sources against every catalogue. ``python -m scripts.catalogue LANG`` lists what is missing.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli

from unhang.errors import KnowledgeError, UsageError
from unhang.late_pattern import late_pattern
from unhang.sentences import Text, fill_template

LOCALE_ROOT = Path(__file__).parent / "locale"
_PLACE = late_pattern(r"(?<!\{)\{[^{}]+\}(?!\})")
_HAN, _LATIN, _MARK = r"[\u3400-\u9fff]", "[A-Za-z0-9`/$_]", "[，。；：！？、（）“”《》]"
_SPACE = late_pattern(f"(?<={_HAN})\0+(?={_LATIN})|(?<={_LATIN})\0+(?={_HAN})")
_NO_SPACE = late_pattern(f"(?<={_MARK})\0+ | \0+(?={_MARK})|(?<={_HAN})(?:\0+ \0*| \0+)(?={_HAN})")


def languages(root: Path = LOCALE_ROOT) -> tuple[str, ...]:
    """Languages that can be asked for: English and those with a catalogue."""
    return ("en", *sorted(path.stem for path in root.glob("*.toml")))


def resolve_language(argument: str | None, environ: Mapping[str, str] | None = None, root: Path = LOCALE_ROOT) -> str:
    """The language to speak: ``--lang`` if given, else the locale, else English.

    Raises:
        UsageError: ``argument`` names a language there is no catalogue for.
    """
    known = languages(root)
    if argument:
        lang = _primary(argument)
        if lang not in known:
            raise UsageError(f"There is no language {argument!r} here; choose one of: {', '.join(known)}.")
        return lang
    environ = os.environ if environ is None else environ
    setting = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    if _primary(setting) not in ("", "c", "posix"):
        # As gettext has it: a list of languages to try, which counts unless the locale is C.
        wanted = (_primary(tag) for tag in environ.get("LANGUAGE", "").split(":"))
        setting = next((lang for lang in wanted if lang in known), setting)
    lang = _primary(setting)
    return lang if lang in known else "en"


def _primary(tag: str) -> str:
    """``zh`` of ``zh_CN.UTF-8``, ``zh-Hans`` or ``ZH``."""
    return tag.replace("-", "_").split(".")[0].split("_")[0].strip().lower()


def translate(text: Text, lang: str = "en", root: Path = LOCALE_ROOT) -> str:
    """``text`` in ``lang``; a template the catalogue does not hold is said in English."""
    if lang == "en":
        return str(text)
    template = _PLACE.sub("\0\\g<0>\0", catalogue(lang, root).get(text.template, text.template))
    values = {name: _value(value, lang, root) for name, value in text.values.items()}
    return space_seams(fill_template(template, values, word_catalogue(lang, root).get(", ", ", ")))


def _value(value: Any, lang: str, root: Path) -> Any:
    """A sentence inside a sentence, a fixed word (``saving a checkpoint``), several joined by *and*; else as it is."""
    if isinstance(value, Text):
        return translate(value, lang, root)
    if not isinstance(value, str):
        return value
    known = word_catalogue(lang, root)
    parts = value.split(" and ")
    if len(parts) > 1 and all(part in known or part.isdigit() for part in parts):
        return space_seams(f"\0{known.get(' and ', ' and ')}\0".join(known.get(part, part) for part in parts))
    return known.get(value) or translate_known(value, lang, root)


def space_seams(text: str) -> str:
    """One space between Chinese and Latin, none beside a full-width mark or between Chinese, where a NUL is put."""
    return _NO_SPACE.sub("", _SPACE.sub(" ", text)).replace("\0", "")


@lru_cache(maxsize=8)
def catalogue(lang: str, root: Path = LOCALE_ROOT) -> Mapping[str, str]:
    """The catalogue of ``lang``; empty when there is none.

    Raises:
        KnowledgeError: the file is not a flat table ``[texts]`` of strings, or a translation has other places.
    """
    from unhang.knowledge.words import translations  # a help screen in English reads no rows

    texts = dict(translations(lang))
    for path in _parts(lang, root):
        found = _table(path).get("texts", {})
        for template, translation in found.items():
            if not isinstance(translation, str):
                raise KnowledgeError(f"{path.name}: the translation of {template!r} is not a string")
            if placeholders(translation) != placeholders(template):
                raise KnowledgeError(f"{path.name}: the translation of {template!r} has other places than the original")
        texts.update(found)
    return texts


def _parts(lang: str, root: Path) -> tuple[Path, ...]:
    return (root / f"{lang}.toml", *sorted((root / lang).glob("*.toml")))


@lru_cache(maxsize=8)
def word_catalogue(lang: str, root: Path = LOCALE_ROOT) -> Mapping[str, str]:
    """Fixed words that detectors put into templates, with their translation."""
    return {word: said for path in _parts(lang, root) for word, said in _table(path).get("words", {}).items()}


def _table(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        table: dict[str, Any] = tomli.loads(path.read_text("utf-8"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KnowledgeError(f"{path.name} is not valid TOML: {error}") from error
    return table


def translate_known(text: str, lang: str = "en", root: Path = LOCALE_ROOT) -> str:
    """A sentence of ``knowledge/`` in ``lang``; one that no row and no catalogue holds stays English."""
    return text if lang == "en" else knowledge_catalogue(lang, root).get(text, text)


@lru_cache(maxsize=8)
def knowledge_catalogue(lang: str, root: Path = LOCALE_ROOT) -> Mapping[str, str]:
    """English sentences of the rows and of the detectors' pages with their translation."""
    from unhang.knowledge.words import translations

    return {**dict(translations(lang)), **_table(root / "knowledge" / f"{lang}.toml").get("texts", {})}


def translate_error(text: str, lang: str = "en", root: Path = LOCALE_ROOT) -> str:
    """An error, a reason or a note in ``lang``: its template is recognised in the English text, and so is each value.

    What none fits stays English, and so does a list or a label (signs alone) in which nothing is recognised.
    """
    for pattern, said in _error_patterns(lang, root):
        if (found := pattern.fullmatch(text)) is not None:
            values = [translate_error(value, lang, root) for value in found.groups()]
            if values != list(found.groups()) or any(map(str.isalpha, said)):
                return said.format("", *values)
    return text


def error_catalogue(lang: str, root: Path = LOCALE_ROOT) -> Mapping[str, str]:
    """English templates of errors, reasons and notes with their translation; places are numbered from 1."""
    return {en: said for table in _table(root / "errors" / f"{lang}.toml").values() for en, said in table.items()}


@lru_cache(maxsize=8)
def _error_patterns(lang: str, root: Path) -> list[tuple[re.Pattern[str], str]]:
    found, held = [], error_catalogue(lang, root).items()
    for english, said in sorted(held, key=lambda row: (row[0][0] == "{", -len(row[0]))):  # what says most comes first
        parts = string.Formatter().parse(english)
        pattern = "".join(re.escape(text) + ("" if place is None else "(.*?)") for text, place, *_ in parts)
        found.append((re.compile(pattern, re.DOTALL), said))
    return found


def placeholders(template: str) -> set[str]:
    """Names of the ``{name}`` places of a template."""
    return {name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(template) if name}
