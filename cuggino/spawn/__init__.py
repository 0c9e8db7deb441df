"""One task in a sandbox: evaluate, provision, execute, monitor, recover, integrate, report."""
