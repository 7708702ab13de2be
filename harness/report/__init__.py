"""What is made from a run folder, and from nothing else: report.html, results.csv, junit.xml, the terminal's table."""
