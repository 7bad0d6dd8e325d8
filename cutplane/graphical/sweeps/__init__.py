"""Messages: reparametrisations of a model, sweeps that raise their bound, labellings decoded from them."""
