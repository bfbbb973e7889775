"""Tests of the formats: tables, codec, scapy layers, ICRC, golden vectors, SPEC.md."""
