"""The checker: what evidence and claims prove, in exact arithmetic."""
