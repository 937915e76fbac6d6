"""What a host tells in numbers."""
