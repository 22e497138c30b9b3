"""What is wise: eviction orders and placement, one idea a file. No clock, no chance, no tier."""
