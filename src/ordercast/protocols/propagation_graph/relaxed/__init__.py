"""Delivery that goes on when sites fail (Spauster 7.1.1, 7.3): `delivery = "non-atomic"` of the propagation graph."""
