"""What is raised for content that is not what it should be: text that is no UTF-8 is not among msgspec's own errors,
and JSON nested without end is no ValueError."""

from __future__ import annotations

from typing import Final

import msgspec

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
JSON_ERRORS: Final = (ValueError, RecursionError)
