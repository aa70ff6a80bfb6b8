"""Tests of the methods for people, and of their async twins."""
