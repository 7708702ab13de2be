"""What a phone is: facts, identity, tier. Parsers are pure functions over captured bytes."""
