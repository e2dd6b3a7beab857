"""A pickle read as plain containers only: nothing in it is ever executed."""
