"""What the checked code may try against store, files and meter, under real Landlock through a real landrun.

docs/security.md says what it can do; these tests that it can do no more, by Landlock ABI and landrun version.
"""
