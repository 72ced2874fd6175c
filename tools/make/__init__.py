"""What `make` does besides notebooks and site: one page, pictures, the address."""
