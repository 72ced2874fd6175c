"""What the benchmarks in .. measured, with the machine. Written by those scripts, never by hand."""
