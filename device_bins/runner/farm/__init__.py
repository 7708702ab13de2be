"""The parts of farm_runner, the twin in Python. They go to the phone beside it."""
