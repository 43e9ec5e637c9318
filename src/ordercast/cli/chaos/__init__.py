"""`ordercast chaos`: what is asked, and what is shown."""
