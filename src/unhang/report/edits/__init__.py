# ruff: noqa: D104
