"""What risks, regularizers, sets and masters share: capabilities, lines, forms, parameters, validation."""
