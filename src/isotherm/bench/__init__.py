"""`isotherm bench`: time and memory, as ratios in one run, against what people would use instead."""
