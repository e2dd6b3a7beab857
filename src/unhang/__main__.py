"""``python -m unhang``: the same as ``unhang``."""

from unhang.cli.main import main

main()
