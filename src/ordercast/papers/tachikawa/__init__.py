"""Figures of Tachikawa and Takizawa (selective total order)."""
