"""The browser of tests/browser, for the site."""

from browser.conftest import browser, open_page

__all__ = ["browser", "open_page"]
