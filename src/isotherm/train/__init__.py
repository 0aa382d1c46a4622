"""One loop for every method: configuration, optimisers, schedules, checkpoints, guards."""
