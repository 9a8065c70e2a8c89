"""Requests that continue others or share parts with them: how they are written and put together again."""
