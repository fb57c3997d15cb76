"""Who may do what: keys, networks, limits for each key. Pure: nothing here knows HTTP, a socket or a clock."""
