"""Self-check: what the harness assumes about phones, put to the test on one phone.

Everything here was built without a real phone at hand. Each assumption is one :class:`~harness.selfcheck.result.Check`
that says why it matters and what to do when it does not hold; they run from cheap to dear, and one that fails stops no
other.
"""
