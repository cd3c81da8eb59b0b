"""The command line: `anyshape run|compile|explain MODEL`."""
