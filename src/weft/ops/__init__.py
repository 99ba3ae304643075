"""The op table."""
