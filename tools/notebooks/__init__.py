"""From the text of a chapter to its notebook, and the chapters as data."""
