"""What `make` does besides notebooks and site: PDF, zip, pictures, the address, the math font."""
