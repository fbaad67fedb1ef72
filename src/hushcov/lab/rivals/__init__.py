"""Published competitors, and the studies that hold hushcov against them; nothing imports it."""
