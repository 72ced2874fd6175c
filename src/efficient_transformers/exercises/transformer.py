"""The exercises of Chapter 1, the baseline Transformer."""
