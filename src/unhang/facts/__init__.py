"""Typed statements about ranks, groups and collectives, independent of the format they came from."""
