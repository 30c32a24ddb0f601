"""Metnos: a personal daemon that plans, asks, acts and takes back."""
