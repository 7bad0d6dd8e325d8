"""Random trials: problems whose optima are known by construction, damaged oracles, forged certificates."""
