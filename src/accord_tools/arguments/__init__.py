"""Values made from JSON Schemas: plain ones, ones at limits, wrong ones, and generated ones."""
