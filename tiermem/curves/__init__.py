"""Exact hits over arrays of block references, without clock or leases; one file per method.

Nothing is imported here: take what you need from the module that has it.
"""
