"""Folds over the tables of a run: numbers, a folder of results, tables and figures."""
