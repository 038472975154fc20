"""Layer 2: where randomness comes from, and the laws that are drawn with it."""
