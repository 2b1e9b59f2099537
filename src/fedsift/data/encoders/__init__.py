"""Frozen encoders: networks that nobody trains here, from samples to features."""
