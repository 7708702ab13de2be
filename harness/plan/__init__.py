"""Plans: which cells to run, as one typed model over TOML, and the matrix made from it."""
