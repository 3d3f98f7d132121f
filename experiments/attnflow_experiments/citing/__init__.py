"""How well citations are found, against every deletion there is."""
