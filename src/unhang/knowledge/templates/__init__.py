"""What programs of jobs print, as templates, one file a program; `python -m scripts.harvest` writes them."""
