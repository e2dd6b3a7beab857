"""Write the made-up cases again: ``python -m tests.cases.make_all``; the recorded ``*_lab_*`` ones stay as they are."""

from __future__ import annotations

from tests.cases import (
    make_control_flow,
    make_failures,
    make_left_by_rank,
    make_machine,
    make_marked,
    make_moving,
    make_waits,
    make_worlds,
)


def main() -> None:
    """Write every case of every family."""
    for family in (
        make_control_flow,
        make_failures,
        make_left_by_rank,
        make_machine,
        make_marked,
        make_moving,
        make_waits,
        make_worlds,
    ):
        family.make()


if __name__ == "__main__":
    main()
