"""What `make` does besides notebooks and site: one page, zip, pictures, the address."""
