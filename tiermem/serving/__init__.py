"""Who asks: an LLM server as a second pure brain around the controller."""
