"""History rows in, one chart specification out; rendering to SVG and PNG."""
