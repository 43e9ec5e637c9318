"""Tables and graphs of the papers, each as a declared experiment with what its paper says (docs/reproduction.md)."""
