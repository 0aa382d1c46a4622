"""One file per format; each reads one split of a folder into `Images`."""
