"""A whole lab on Dask.distributed: hosts with phones, one scheduler, any number of controllers. See ``docs/lab.md``."""
