"""The worked example and other drawings of Chapter 5, gMLP. All functions return the figure."""
