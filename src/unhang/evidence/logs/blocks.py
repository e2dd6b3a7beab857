"""A log as blocks of whole lines: any encoding, any size, lines of any length, in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 1 << 20
_NON_ASCII = re.compile(rb"[\x80-\xff]+")
LINE_BYTES = 1 << 16
"""Of a longer line (or a longer piece between two carriage returns) only this much is kept."""


class Blocks:
    """Iterates over the blocks of ``stream``: whole lines as UTF-8-like bytes (legacy encodings stay as they are).

    ``cut_lines`` counts lines of which the end was left out.
    """

    def __init__(self, stream: BinaryIO, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._stream = stream
        self._block_bytes = block_bytes
        self.cut_lines = 0
        self.ended = True
        """Whether the last line had an end."""
        self.trouble = ""

    def __iter__(self) -> Iterator[bytes]:
        kept = b""
        dropping = False
        ended = True
        for chunk in self._chunks():
            at = chunk.find(b"\n") if dropping else chunk.rfind(b"\n") + 1
            if at > 0 and not dropping:
                yield b"".join((kept, memoryview(chunk)[:at]))
                kept, ended = chunk[at:], True
                continue
            if dropping:
                if at < 0:
                    continue
                dropping = False
                kept = chunk[at:]
            else:
                kept += chunk
            at = kept.rfind(b"\n") + 1
            if at == 0 and len(kept) > LINE_BYTES:
                at = kept.rfind(b"\r") + 1
                if at == 0:
                    self.cut_lines += 1
                    yield kept[:LINE_BYTES]
                    kept, dropping, ended = b"", True, False
                    continue
            if at == 0:
                continue
            data, kept = kept[:at], kept[at:]
            yield data
            ended = data.endswith(b"\n")
        if kept:
            yield kept
            ended = False
        self.ended = ended

    def _chunks(self) -> Iterator[bytes]:
        chunk = self._read()
        decoder = _wide_decoder(chunk)
        if decoder is None:
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        while chunk:
            if decoder is not None:
                chunk = decoder.decode(chunk).encode("utf-8", "replace").removeprefix(codecs.BOM_UTF8)
            chunk = chunk.replace(b"\0", b"")
            if chunk:
                yield chunk
            chunk = self._read()

    def _read(self) -> bytes:
        """The next block; what a pipe gives in pieces is put together."""
        parts: list[bytes] = []
        size = 0
        if self.trouble:
            return b""
        try:
            while size * 2 < self._block_bytes and (part := self._stream.read(self._block_bytes - size)):
                parts.append(part)
                size += len(part)
        except (OSError, EOFError, ValueError) as error:
            self.trouble = str(error) or type(error).__name__
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _wide_decoder(head: bytes) -> codecs.IncrementalDecoder | None:
    """A decoder for UTF-16 or UTF-32, told by its mark or by the zeros between Latin letters."""
    for mark, name in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return codecs.getincrementaldecoder(name)("replace")
    sample = head[:4096]
    if len(sample) >= 16:
        for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            zeros, letters = sample[first::2].count(0), sample[1 - first :: 2].count(0)
            if zeros > len(sample) * 0.4 and letters < len(sample) * 0.05:
                return codecs.getincrementaldecoder(name)("replace")
    return None


def decoded(raw: bytes) -> str:
    """A line as text: UTF-8, else GB18030, else Latin-1."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    text = raw.decode("utf-8", "replace")
    if text.count("\ufffd") <= 2 and any(ord(character) > 127 and character != "\ufffd" for character in text):
        return text  # a character torn at the cut of a line
    if all(len(run) == 1 for run in _NON_ASCII.findall(raw)):
        return raw.decode("latin-1")  # accents stand alone, Chinese characters do not
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
