"""One loop for every method: configuration, optimizers, schedules, checkpoints, guards."""
