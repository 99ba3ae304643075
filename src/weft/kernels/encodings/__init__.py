"""Weight encodings: how constants are stored in fewer bits, and the loops that read them.

``table`` lists them; ``reading`` says what each has to provide.
"""
