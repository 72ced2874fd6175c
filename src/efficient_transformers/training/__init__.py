"""What trains a model: text, the loop, scores, checkpoints, devices, and the folders of runs."""
