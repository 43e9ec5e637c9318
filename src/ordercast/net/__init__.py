"""Real networks: UDP sockets, IP multicast, and the site that runs protocol instances on them."""
