"""Blocks on NVMe: segments of self-describing slots, found again after any kill."""
