"""Deal items out: shuffled as a pure function of (seed, epoch), sharded exactly, resumed anywhere."""
