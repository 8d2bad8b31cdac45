"""The dashboard: pages and JSON over a query interface."""
