"""What runs show: records, how they are compared, and which run a study makes next."""
