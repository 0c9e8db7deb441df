"""Working through the backlog: waiting for items, the audit beside the waiting, processing, validation."""
