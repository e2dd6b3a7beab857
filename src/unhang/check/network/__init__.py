"""Interfaces, RDMA ports, firewall and the place where ranks meet."""
