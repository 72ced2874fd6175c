"""What `make` does besides notebooks and site: zip, pictures, the address, the math font."""
