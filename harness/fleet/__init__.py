"""Which phones take part: the words of ``--devices``, adb's lists, and who is left out and why."""
