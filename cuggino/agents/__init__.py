"""Coding agents: one protocol, a module for each program that speaks it."""
