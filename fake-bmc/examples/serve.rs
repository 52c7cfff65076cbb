//! Serves one BMC on this machine's loopback interface, for real Redfish and IPMI clients.
//!
//! `cargo run -p fake-bmc --example serve`; the account is `admin` with `password`. Power and boot take tens of
//! milliseconds unless `--real-times` is given.

use std::{io, sync::Arc};

use fake_bmc::{Bmc, Config, Credentials, DiskContent, Inert, MacAddress, Protocol, REDFISH_PORT, Timings};
use wire::{Seed, Silent, real::Network};

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mac = MacAddress::new([0x52, 0x54, 0x00, 0x00, 0x00, 0x01]);
    let mut config = Config::new("machine-0", mac, Credentials::new("admin", "password"));
    config.protocol = Protocol::Both;
    // With a system to boot, a soft power off has somebody who hears it.
    config.disk =
        DiskContent::Image { digest: "sha256:0".to_owned(), url: "http://images/example.qcow2".to_owned() };
    if !std::env::args().any(|argument| argument == "--real-times") {
        config.timings = Timings::quick();
    }
    let network = Network::new(Seed(1), Arc::new(Silent));
    let (bmc_host, machine_host) = (network.host("bmc-0"), network.host("machine-0"));
    let bmc = Bmc::new(config);
    let serving = bmc.serve(bmc_host.clone(), machine_host, Arc::new(Inert));
    // The ports are known once they are bound.
    bmc_host.sleep(std::time::Duration::from_millis(100)).await;
    println!("http://{}{}", network.endpoint(&bmc_host, REDFISH_PORT), bmc.system_path());
    println!("{}", network.endpoint(&bmc_host, ipmi::PORT));
    match serving.await {
        Some(ended) => ended,
        None => Ok(()),
    }
}
