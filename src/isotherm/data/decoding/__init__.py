"""Compressed images decoded when they are needed, and cropped from the whole of them, by processes without torch."""
