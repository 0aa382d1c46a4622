"""Our losses in other people's trainers, one file per library. None of these libraries is imported here."""
