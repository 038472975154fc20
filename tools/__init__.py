"""What `make` runs and nobody imports, except its tests."""
