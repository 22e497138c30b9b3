"""The world as frozen values: tiers, links, machines, language models, and step times."""
