"""The instrument. Standard library only, and little of it: this runs inside trusted judges (docs/design-notes.md)."""
