"""Configuration, the loop, the run folder."""
