"""File I/O behind one seam: which path moves the bytes, and how that was proved."""
