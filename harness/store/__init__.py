"""The run folder: what a record is, how it is appended without loss, how it is read back."""
