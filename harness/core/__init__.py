"""The leaf that everybody may use: errors, deadlines, ids, reasons, resources, the provider protocol."""
