"""Studies: a paper's question as data, run as a grid, judged by claims, told as a page."""
