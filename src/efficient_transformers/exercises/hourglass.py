"""The exercises of Chapter 4, Hourglass."""
