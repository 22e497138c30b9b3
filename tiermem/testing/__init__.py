"""The public kit: bodies that do as they are told, an adversary, suites to inherit."""
