"""What a suite can be run against: `target` says what each must offer."""
