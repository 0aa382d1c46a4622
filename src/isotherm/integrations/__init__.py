"""Our losses in other people's trainers, one file a library. None of these libraries is imported here."""
