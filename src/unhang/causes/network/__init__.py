"""Causes in addresses, links and the rendezvous."""
