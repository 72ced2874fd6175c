"""What `make` does besides notebooks and site: PDF, zip, pictures, the address, plain Sphinx, the math font."""
