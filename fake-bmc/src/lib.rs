//! A bare-metal machine behind a BMC that speaks Redfish and IPMI 2.0 over LAN.
