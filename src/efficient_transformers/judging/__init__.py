"""Is mine better? A comparison that the variant could lose: rates, seeds, equal time, verdicts and their evidence."""
