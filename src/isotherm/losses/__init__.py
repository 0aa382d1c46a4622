"""One file per family. A loss says what it thinks of one query's similarities; who they are is `isotherm.pairing`'s."""
