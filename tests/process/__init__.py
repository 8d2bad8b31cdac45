"""Whole brokers as real processes: starts, stops, full disks, operators."""
