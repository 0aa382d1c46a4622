"""What a set says when it is asked for a part that it does not have, so that another can be asked for."""


class NoSplit(FileNotFoundError, ValueError):
    """The set is there and has no such part; a part that is there and damaged says something else."""
