"""What chapters show: recorded runs and what came out of them, figures, exercises, instruments."""
