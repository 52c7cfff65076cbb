//! IPMI 2.0 over LAN (RMCP+), codec with client and server sessions.
