"""Figures, one function per kind: the only place that imports matplotlib."""
