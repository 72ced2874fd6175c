"""The worked example and other drawings of Chapter 4, Hourglass. All functions return the figure."""
