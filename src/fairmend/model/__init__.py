"""What is queried: the black box, models in files and models behind an address."""
