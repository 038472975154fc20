"""Everything that sees a row or a count. The door is `fit`: recipes and sources go in, published documents come out."""
