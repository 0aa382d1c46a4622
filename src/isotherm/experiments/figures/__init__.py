"""Figures of studies: what a study says of them (`plots`), and those that look into a run itself (`portraits`)."""
