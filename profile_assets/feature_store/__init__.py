"""What readers see: the published tables, and the one step that makes a day visible."""
