"""Convolutions of bytes by pairs of products (SMLAD), in loops that layers share."""
