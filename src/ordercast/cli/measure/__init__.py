"""`ordercast measure`: what is asked, what is shown, and the page of a report."""
