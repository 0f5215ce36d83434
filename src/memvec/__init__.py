"""Similarity search with memory vectors.

Find everything above a similarity, miss at most a stated fraction, and show the proof.
"""
