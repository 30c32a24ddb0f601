"""Transports that bring messages in and replies out."""
