"""Loops: the kernel grammar, text, verify, interpreter, schedules."""
