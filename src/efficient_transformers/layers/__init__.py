"""The layers of the book, each as its equation; their fast forms; and what looks into them."""
