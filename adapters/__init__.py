"""The outside world's conventions, one file each."""
