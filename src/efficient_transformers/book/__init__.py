"""What chapters show: figures, exercises, instruments."""
