"""Tests of bytes on the network."""
