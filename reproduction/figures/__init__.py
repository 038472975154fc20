"""One module for each figure or table."""
