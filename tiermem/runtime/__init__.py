"""The real body: threads, files, memory. Nothing here decides where a block should be."""
