"""Fused kernels: the engine's sums and their gradients on a GPU; similarities are never stored. It needs triton."""
