"""Runners: how each is started, and how what it prints is read into generations."""
