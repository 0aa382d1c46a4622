"""`isotherm push` and `pull`: a run as a model in the hub's layout, in a folder or on the hub."""
