"""The worked example and other drawings of Chapter 1, the baseline Transformer. All functions return the figure."""
