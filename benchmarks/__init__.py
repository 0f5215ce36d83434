"""Measurements against the peers, run on purpose: ``make bench``."""
