"""One file a format; each reads one split of a folder into `Images`."""
