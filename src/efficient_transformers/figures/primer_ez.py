"""The worked example and other drawings of Chapter 2, Primer EZ. All functions return the figure."""
