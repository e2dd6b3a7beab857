"""Causes in what ranks have to do: too much, alone, slowly, or more often than the others."""
