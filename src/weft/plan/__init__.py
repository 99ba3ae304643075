"""Plan: groups, layouts, order, memory; what runs where at which address."""
