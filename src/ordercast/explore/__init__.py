"""Small worlds searched whole: every run of a few sites and messages, within limits, of the cores as they are."""
