"""The client as a whole, while everything around it fails."""
