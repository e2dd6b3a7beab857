from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli

from scripts import catalogue
from unhang.errors import KnowledgeError, UsageError
from unhang.knowledge.activities import single_rank_work_words
from unhang.knowledge.job.environment_variables import variables
from unhang.knowledge.terms import terms
from unhang.report import language
from unhang.sentences import Text, say

SOURCES = Path(language.__file__).parents[1]


def test_every_say_has_a_literal_template() -> None:
    loose = [
        f"{path}:{line}"
        for folder in catalogue.template_folders()
        for template, path, line in catalogue.templates_in(folder)
        if template is None
    ]
    assert not loose


def test_every_catalogue_is_complete() -> None:
    for lang in language.languages()[1:]:
        assert not catalogue.missing_templates(lang), f"python -m scripts.catalogue {lang}"


def test_no_catalogue_holds_what_nothing_says() -> None:
    for lang in language.languages()[1:]:
        assert not catalogue.unused_templates(lang), f"python -m scripts.catalogue {lang}"


def test_every_sentence_of_the_knowledge_is_translated_and_nothing_else() -> None:
    needed = set(catalogue.known_sentences())
    for lang in language.languages()[1:]:
        place = f"report/locale/knowledge/{lang}.toml"
        beside = set(tomli.loads((language.LOCALE_ROOT / "knowledge" / f"{lang}.toml").read_text("utf-8"))["texts"])
        held = set(language.knowledge_catalogue(lang)) - words_for_titles()
        assert sorted(needed - held) == [], f"translate it in its row, or in {place}"
        assert sorted(beside - words_for_titles() - needed - short_values()) == [], f"nothing says it: {place}"


def short_values() -> set[str]:
    """Values of variables that read well without a translation, and may have one."""
    return {value for variable in variables() for value in catalogue.values_of(variable)}


def words_for_titles() -> set[str]:
    """Titles of searched words are translated where a catalogue has a word people type in its language."""
    return {term.names[0] for term in terms() if term.kind == "word"}


def test_every_fixed_word_of_the_rules_is_translated() -> None:
    for lang in language.languages()[1:]:
        assert (
            sorted({work.said for work in single_rank_work_words().values()} - set(language.word_catalogue(lang))) == []
        )


def test_a_translation_keeps_commands_and_names() -> None:
    kept = re.compile(r"\b[A-Z]+(?:_[A-Z0-9]+)+\b|--[a-z][a-z-]+")
    for lang in language.languages()[1:]:
        for template, translation in (
            *language.catalogue(lang).items(),
            *language.knowledge_catalogue(lang).items(),
        ):
            assert set(kept.findall(template)) <= set(kept.findall(translation)), template
            assert ":who}" not in translation, "it says rank or ranks in English"


def test_fixed_words_inside_a_sentence_are_translated() -> None:
    template = "{ranks:who} disagree in {kinds} at position {position}"
    said = language.translate(Text(template, {"ranks": (1, 2), "kinds": "size and dtype", "position": 4}), "zh")

    assert said == "rank 1、2 在第 4 个位置上的大小和 dtype 不一致"


def test_a_cut_list_of_numbers_has_the_comma_of_its_language() -> None:
    lines = say("{count} left out: {why} (line {lines})", count=9, why=say("no caption"), lines="2, 63, 124, …")

    assert str(lines) == "9 left out: no caption (line 2, 63, 124, …)"
    assert language.translate(lines, "zh") == "略去 9 个：没有文字说明（第 2、63、124、… 行）"


def test_a_sentence_of_the_knowledge_is_said_in_the_language() -> None:
    assert language.translate_known("NVLink failed.", "zh") == "NVLink 故障。"
    assert language.translate_known("not known", "zh") == "not known"


def test_english_needs_no_catalogue() -> None:
    assert language.translate(say("Ranks {ranks} wait", ranks=(0, 1, 2, 5))) == "Ranks 0-2, 5 wait"


def test_a_catalogue_translates_and_falls_back_to_english(tmp_path: Path) -> None:
    (tmp_path / "xx.toml").write_text('[texts]\n"Ranks {ranks} wait" = "{ranks} tnaw"\n', "utf-8")
    assert language.translate(say("Ranks {ranks} wait", ranks=[1, 2, 3]), "xx", tmp_path) == "1-3 tnaw"
    assert language.translate(say("Other"), "xx", tmp_path) == "Other"
    assert language.languages(tmp_path) == ("en", "xx")


def test_a_sentence_inside_a_sentence_is_translated_too(tmp_path: Path) -> None:
    (tmp_path / "xy.toml").write_text('[texts]\n"a {b}" = "A {b}"\n"inner" = "INNER"\n', "utf-8")
    assert language.translate(say("a {b}", b=say("inner")), "xy", tmp_path) == "A INNER"


@pytest.mark.parametrize("content", ['[texts]\n"a {b}" = "a {c}"', '[texts]\n"a" = 3', "[texts"])
def test_a_broken_catalogue_is_our_mistake_in_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "yy.toml").write_text(content, "utf-8")
    language.catalogue.cache_clear()
    with pytest.raises(KnowledgeError, match=r"yy\.toml"):
        language.catalogue("yy", tmp_path)


def test_every_error_reason_and_note_is_translated_and_nothing_else() -> None:
    needed = catalogue.error_templates()
    for lang in language.languages()[1:]:
        held = language.error_catalogue(lang)
        others = tomli.loads((language.LOCALE_ROOT / "errors" / f"{lang}.toml").read_text("utf-8"))["others"]
        assert sorted(needed - held.keys()) == [], "translate it in report/locale/errors"
        assert sorted(held.keys() - others.keys() - needed) == [], "nothing says it"


def test_an_error_is_recognised_with_its_values_and_keeps_commands_and_names() -> None:
    kept = re.compile(r"\b[A-Z]+(?:_[A-Z0-9]+)+\b|--[a-z][a-z-]+")
    values = ["", *(f"<{number}>" for number in range(1, 6))]
    for lang in language.languages()[1:]:
        for template, translation in language.error_catalogue(lang).items():
            assert set(kept.findall(template)) <= set(kept.findall(translation)), template
            assert language.placeholders(translation) <= language.placeholders(template), template
            if any(map(str.isalpha, translation)):
                said = language.translate_error(template.format(*values), lang)
                assert said == translation.format(*values), template


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("a.png: is an image, which holds no evidence; b: does not exist", "a.png：是图片，里面没有证据；b：不存在"),
        ("cannot write the evidence to /x (Permission denied)", "证据无法写入 /x（没有权限）"),
        ("KeyError: nobody knows; that", "KeyError: nobody knows; that"),
        ("no sentence of ours", "no sentence of ours"),
    ],
)
def test_an_error_is_said_as_far_as_it_is_known(english: str, chinese: str) -> None:
    assert language.translate_error(english, "zh") == chinese
    assert language.translate_error(english, "en") == english


def test_the_argument_wins_over_the_locale(tmp_path: Path) -> None:
    (tmp_path / "zh.toml").write_text("[texts]\n", "utf-8")
    assert language.resolve_language("en", {"LANG": "zh_CN.UTF-8"}, tmp_path) == "en"
    assert language.resolve_language(None, {"LANG": "zh_CN.UTF-8"}, tmp_path) == "zh"
    assert language.resolve_language(None, {"LANG": "C", "LC_ALL": ""}, tmp_path) == "en"
    assert language.resolve_language("zh-Hans", {}, tmp_path) == "zh"


@pytest.mark.parametrize(
    ("environ", "lang"),
    [
        ({"LANG": "zh_CN.GB18030"}, "zh"),
        ({"LANG": "zh_CN"}, "zh"),
        ({"LANG": "zh_TW.UTF-8"}, "zh"),
        ({"LC_ALL": "zh_CN.GBK", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LANGUAGE": "zh_CN:en", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LANGUAGE": "en:zh_CN", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANGUAGE": "xx", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANGUAGE": "zh_CN", "LC_ALL": "C"}, "en"),
        ({"LANGUAGE": "zh_CN", "LANG": "C.UTF-8"}, "en"),
        ({"LANGUAGE": "zh_CN"}, "en"),
        ({"LC_ALL": "POSIX", "LANG": "zh_CN.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_locale_is_read_as_other_programs_read_it(environ: dict[str, str], lang: str) -> None:
    assert language.resolve_language(None, environ) == lang


def test_an_unknown_language_is_refused_with_what_exists() -> None:
    with pytest.raises(UsageError, match="choose one of: en"):
        language.resolve_language("tlh")
