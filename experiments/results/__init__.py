"""Results of the studies in ../studies.py, one line of JSON per run. Written by that script, never by hand."""
