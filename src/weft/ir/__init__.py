"""Graph: types, graph, text, verify, edit."""
