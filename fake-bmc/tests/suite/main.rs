//! A BMC and its machine in simulated worlds, as clients on the network see them.

mod boot;
mod faults;
mod ipmi_lan;
mod redfish;
mod world;
