"""The verbs of ``mnn-farm``, a module each; :mod:`harness.cli` puts them together."""
