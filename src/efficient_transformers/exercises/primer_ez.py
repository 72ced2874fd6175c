"""The exercises of Chapter 2, Primer EZ."""
