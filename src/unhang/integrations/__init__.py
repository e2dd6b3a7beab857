"""One line for each library: its loops get the guards of unhang, and say what they do to ``unhang run``.

A file here loads its library, so nothing is imported before it is named:
``from unhang.integrations.transformers import UnhangCallback``.
"""
