"""In place of setuptools while pip fetches a source archive; see ``build_meta``."""
