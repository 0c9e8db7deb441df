"""The sample project of `cuggino demo`: its files, and a script for the scripted agent."""
