"""The worked example and other drawings of Chapter 3, Primer's variations. All functions return the figure."""
