"""The models of the book: how they are made from layers, saved, what they write and what they cost."""
