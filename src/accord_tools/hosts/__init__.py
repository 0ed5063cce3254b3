"""Hosts: applications that launch servers, their configurations, and careful changes of these."""
