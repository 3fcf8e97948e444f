"""What a wrapped command and its caller can notice: docs/transparency.md says what, these tests that it is no more."""
