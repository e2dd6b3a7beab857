"""The verdict as one HTML file that works offline."""
