"""The machinery of studies: points, workers, records, claims, figures, the report. Definitions are in `studies`."""
