"""Many servers in one file: checked side by side, compared with earlier runs, shown on one page."""
