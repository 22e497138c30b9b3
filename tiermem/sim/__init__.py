"""The virtual body: SimPy performs the actions in virtual nanoseconds."""
