"""Training graphs: gradients and, with them, all that training needs."""
