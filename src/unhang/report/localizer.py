"""How a report speaks: one language, one redactor, nothing unprintable. Every string of an output goes through it."""

from __future__ import annotations

from dataclasses import dataclass, field

from unhang.findings import Where
from unhang.report.language import translate, translate_error, word_catalogue
from unhang.report.printable import capitalized, one_line, printable
from unhang.report.redaction.redact import Redactor
from unhang.sentences import Text


@dataclass(frozen=True, slots=True)
class Localizer:
    """Localizes, redacts and cleans every string of a report."""

    lang: str = "en"
    redactor: Redactor = field(default_factory=Redactor)

    def say(self, text: Text) -> str:
        """A sentence in the report's language."""
        return self.clean(translate(text, self.lang))

    def clean(self, text: str) -> str:
        """Text from evidence: redacted, printable, lines kept."""
        return self.redactor.text(printable(text))

    def reason(self, text: str) -> str:
        """Why something could not be read, in the report's language."""
        return self.clean(translate_error(text, self.lang))

    def line(self, text: str, limit: int = 0) -> str:
        """Text from evidence on one line, cut beyond ``limit`` characters (0 = never)."""
        return one_line(self.clean(text), limit)

    def command(self, text: str) -> str:
        """A command, or the words that stand in for one (``run again with …``)."""
        return self.clean(self.word(text))

    def word(self, word: str) -> str:
        """One of our fixed words (``communication``) in the report's language."""
        return word_catalogue(self.lang).get(word, word) if self.lang != "en" else word

    @property
    def colon(self) -> str:
        """What stands between a label and its text."""
        return "：" if self.lang == "zh" else ": "

    def parenthesized(self, text: str) -> str:
        """``text`` in brackets behind a word."""
        return f"（{text}）" if self.lang == "zh" else f" ({text})"

    def two(self, first: str, second: str) -> str:
        """Two sentences, one behind the other; the second may be empty, and has no full stop yet."""
        return first if not second else f"{first}{second}。" if self.lang == "zh" else f"{first} {second}."

    def place(self, where: Where) -> str:
        """``train.py:88`` or ``train.py`` when the line is not known."""
        file = self.line(where.file)
        return f"{file}:{where.line}" if where.line is not None else file

    def line_of_code(self, text: str) -> str:
        """A line of source with its indentation kept."""
        return self.clean(text).replace("\n", " ").rstrip()

    def sentence(self, text: Text) -> str:
        """A sentence on one line that begins with a capital, unless it begins with a name (``loss.backward``)."""
        spoken = self.line(self.say(text))
        return capitalized(spoken) if self.lang == "en" else spoken
