"""Search for the best translation. It knows no model: it asks a Stepper what may come next."""
