"""The commands of `metnosd`, by topic."""
