"""The exercises of Chapter 3, Primer's variations."""
