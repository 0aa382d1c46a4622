"""Images to learn from: real sets, controllable probes, imbalance, and the loader that deals them out."""
