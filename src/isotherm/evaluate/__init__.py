"""`isotherm evaluate`: the probes of a run, of images or of sentences."""
