"""Our losses and the monitor in other people's trainers, one file per library.

A library is imported by a file only where the trainer asks for one of its own classes (`lightning`,
`trainer_callback`); the others are called as the library calls its own.
"""
