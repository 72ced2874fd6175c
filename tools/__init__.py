"""What makes the book: ``notebooks`` from its text, ``site`` from notebooks, ``make`` for what `make` does besides.

They run from the root of the repository, as in ``python -m tools.notebooks.run_notebooks``.
"""
