"""Say a verdict: one output a file. Findings (and for HTML facts) in, text out; nothing is read, nothing is sent.

- ``text.print_text(verdict, facts)`` and ``text.to_text(verdict, facts, width=80)``
- ``verdict_document.to_json(verdict, lang="en")``: the contract ``unhang.verdict/1`` and its types
- ``markdown.to_markdown(verdict)``: two blocks, for you and for your administrator
- ``html.page.write_html(verdict, facts, path)``: one self-contained page
- ``redact.Redactor(share=False)``: secrets are always removed; ``share=True`` renames people, machines and places
- ``language.resolve_language(argument)`` and ``language.translate(text, lang)``

Every output takes ``lang`` and ``redactor``. Nothing is imported here.
"""
