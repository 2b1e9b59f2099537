"""A client: what happens at a site, and the only code that sees a sample."""

from fedsift.client.answer import Seen, Site, SiteState, answer, initial_state

__all__ = ["Seen", "Site", "SiteState", "answer", "initial_state"]
