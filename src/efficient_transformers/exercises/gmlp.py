"""The exercises of Chapter 5, gMLP."""
