"""InterGroup: delivery services that each receiver chooses (Berket 2000)."""
