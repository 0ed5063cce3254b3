"""What a server offers: tools, resources, prompts, completion."""
