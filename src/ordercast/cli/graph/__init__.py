"""`ordercast graph`: what is asked, what is shown, and the picture."""
