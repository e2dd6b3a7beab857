"""What content that cannot be decoded raises: text that is not UTF-8 is not among msgspec's own errors, and JSON nested
too deep raises RecursionError, not ValueError."""

from __future__ import annotations

from typing import Final

import msgspec

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
JSON_ERRORS: Final = (ValueError, RecursionError)
