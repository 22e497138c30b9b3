"""The mind: events in, actions out. It never waits, reads a clock or touches a byte."""
