"""What messages say, read from data alone: `config/lexicon/<lang>.toml`."""
