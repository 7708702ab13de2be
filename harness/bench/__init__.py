"""One cell from start to verdict: session, metrics, validity, the record."""
